"""Writes as values, how they are sent, and answers that come late.

A domain controller that is busy with a write answers no other one, and shows readers the state before it. So a time-out
does not mean that the write is lost: the connection is kept, and callers may wait for the answer. Giving it up would
not stop the domain controller, and nobody would learn the outcome.
"""

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import ClassVar, Final, Literal, NamedTuple
from uuid import UUID, uuid4

import ldap
from ldap.controls import LDAPControl, RequestControl

from active_directory.connections import measurements
from active_directory.connections.connection import BROKEN, Connection, LdapObject
from active_directory.connections.pool import Pool
from active_directory.dn import REFERRING_SYNTAXES, guid_reference, replace_names
from active_directory.entry import Entry
from active_directory.errors import InvalidValue, LdapError, OutcomeUnknown, Unavailable, error_from
from active_directory.schema import AttributeType, Schema
from active_directory.streaming import SD_FLAGS, SHOW_DELETED, reference

Operation = Literal["add", "delete", "replace"]


@dataclass(frozen=True)
class Modification:
    """One step of a modify. ``delete`` or ``replace`` without values removes the attribute."""

    op: Operation
    attribute: str
    values: tuple[bytes, ...] = ()

    def __repr__(self) -> str:
        return f"Modification({self.op!r}, {self.attribute!r}, {len(self.values)} values)"  # values may be passwords


@dataclass(frozen=True)
class Add:
    """A new entry."""

    dn: str
    attributes: Mapping[str, Sequence[bytes]]
    guarded: ClassVar[bool] = False

    def __repr__(self) -> str:
        return f"Add({self.dn!r}, {sorted(self.attributes)})"  # values may be passwords


@dataclass(frozen=True)
class Modify:
    """Steps on one entry, applied all or none. ``dn`` may be a ``<GUID=…>`` reference.

    ``guarded`` says that the steps contain compare-and-swaps, so that a missing old value is a conflict. ``deleted``
    allows the entry to be a deleted one, which a modify can reanimate ([MS-ADTS] 3.1.1.5.3.7). After `time_to_live`
    seconds the directory removes the members that are added here, if `has_expiring_links`.
    """

    dn: str
    modifications: tuple[Modification, ...]
    guarded: bool = False
    deleted: bool = False
    time_to_live: int | None = None


@dataclass(frozen=True)
class Delete:
    """Delete an entry, with ``tree`` including everything below it."""

    dn: str
    tree: bool = False
    guarded: ClassVar[bool] = False


@dataclass(frozen=True)
class Rename:
    """Give an entry another RDN or parent. AD accepts only distinguished names here, not ``<GUID=…>`` references."""

    dn: str
    new_rdn: str
    new_parent: str | None = None
    guarded: ClassVar[bool] = False


Write = Add | Modify | Delete | Rename


def names_by_dn(write: Write) -> bool:
    """Whether a write names its object by DN, which somebody may have changed, rather than by objectGUID."""
    return isinstance(write, Rename | Delete) or (isinstance(write, Modify) and write.deleted)


def swap(attribute: str, old: bytes | None, new: bytes | None) -> tuple[Modification, ...]:
    """A compare-and-swap of one value: the modify that contains it fails as a whole unless ``old`` is still there.

    With ``old`` None the attribute must be single-valued: then adding fails if it has a value. A stale swap of
    userAccountControl whose ``new`` is already the value may succeed, so it cannot serve workers as a lock.
    """
    if old == new:
        return ()
    removed = () if old is None else (Modification("delete", attribute, (old,)),)
    added = () if new is None else (Modification("add", attribute, (new,)),)
    return removed + added


def quoted_password(text: str) -> bytes:
    """A value of ``unicodePwd``: UTF-16-LE in double quotes ([MS-ADTS] 3.1.1.3.1.5)."""
    return f'"{text}"'.encode("utf-16-le")


def reanimate(deleted_dn: str, new_dn: str, refill: Sequence[Modification] = ()) -> Modify:
    """The modify that restores a deleted object under a name ([MS-ADTS] 3.1.1.5.3.7); `refill` sets more attributes."""
    return Modify(
        deleted_dn,
        (
            Modification("delete", "isDeleted"),
            Modification("replace", "distinguishedName", (new_dn.encode(),)),
            *refill,
        ),
        deleted=True,
    )


def name_by_guid(write: Write, schema: Schema, identities: Mapping[str, UUID]) -> Write:
    """The same write with objects named by objectGUID wherever LDAP allows it, so that a rename cannot redirect it.

    ``identities`` are the objectGUIDs of the objects meant, by name as the write spells it. Names within text (gPLink)
    stay, as do those of an entry that is added or renamed and of its parent, for which no such form exists (Samba 4.17;
    [MS-ADTS] 3.1.1.3.1.2.4).
    """
    match write:
        case Modify(modifications=steps):
            named = (_values_by_identity(schema.attribute(step.attribute), step.values, identities) for step in steps)
            return replace(
                write,
                modifications=tuple(replace(step, values=values) for step, values in zip(steps, named, strict=True)),
            )
        case Add(attributes=attributes):
            return replace(
                write,
                attributes={
                    name: _values_by_identity(schema.attribute(name), tuple(values), identities)
                    for name, values in attributes.items()
                },
            )
        case Delete(dn=dn) if dn in identities:
            return replace(write, dn=guid_reference(identities[dn]))
    return write


def _values_by_identity(
    attribute: AttributeType | None, values: tuple[bytes, ...], identities: Mapping[str, UUID]
) -> tuple[bytes, ...]:
    # distinguishedName has the syntax of a reference but names the object itself, as in a reanimation.
    if attribute is None or attribute.syntax not in REFERRING_SYNTAXES or attribute.name == "distinguishedName":
        return values

    def reference(name: str) -> str:
        return guid_reference(identities[name]) if name in identities else name

    return tuple(replace_names(attribute, value.decode(), reference).encode() for value in values)


# Samba (seen on 4.17) reanimates tombstones as [MS-ADTS] 3.1.1.5.3.7 specifies. With the recycle bin enabled it also
# removes `isRecycled`, which the object then lacks, and adds defaults that the object has kept, and so refuses its own
# request. Nothing has changed by then, so the reanimation can be sent again in a form to which the server's additions
# fit. Windows never refuses it in this way, and is never sent that form.
KEPT_DEFAULTS = tuple(
    "accountExpires badPasswordTime badPwdCount codePage countryCode lastLogoff lastLogon logonCount".split()
)
"""What Samba adds to an account unless the request mentions it."""
RARE_DEFAULTS = ("adminCount", "operatorCount")
"""What Samba adds to accounts and groups, most of which have neither; the request then says so."""
ATTRIBUTES_TO_REWORD = (*KEPT_DEFAULTS, *RARE_DEFAULTS, "pwdLastSet", "msDS-LastKnownRDN")
"""The attributes of the deleted object that `reword_for_samba` needs."""
_NO_SUCH_ATTRIBUTE = 16


def is_refused_for_recycle_bin(write: Write, refusal: LdapError) -> bool:
    """Whether Samba refused a reanimation because it could not remove `isRecycled`."""
    return (
        isinstance(write, Modify)
        and write.deleted
        and refusal.result_code == _NO_SUCH_ATTRIBUTE
        and (refusal.attribute or "").lower() == "isrecycled"
    )


def reword_for_samba(write: Modify, entry: Entry) -> Modify:
    """The same reanimation in a form that Samba accepts; `entry` was read with ATTRIBUTES_TO_REWORD.

    It replaces attributes that the object has kept by their present values. That does not work for pwdLastSet, which
    can only be set to 0 here; if the request omits it, Samba adds a second value and fails. With 0 the user would have
    to change the password, so another write must set it to the present time (`directory.changes.restore`).
    """
    mentioned = {step.attribute.lower() for step in write.modifications}
    kept = tuple(
        Modification("replace", name, tuple(entry.values(name)))
        for name in (*KEPT_DEFAULTS, *RARE_DEFAULTS)
        if (name in entry or name in RARE_DEFAULTS) and name.lower() not in mentioned
    )
    if "pwdLastSet" in entry:
        kept += (Modification("replace", "pwdLastSet", (b"0",)),)
    if "msDS-LastKnownRDN" in entry:  # otherwise Samba would add a second one at the next deletion, and fail
        kept += (Modification("delete", "msDS-LastKnownRDN"),)
    return Modify(write.dn, (Modification("add", "isRecycled", (b"TRUE",)), *write.modifications, *kept), deleted=True)


TREE_DELETE = LDAPControl("1.2.840.113556.1.4.805", True)  # [MS-ADTS] 3.1.1.3.4.1.15
_STEPS = {"add": ldap.MOD_ADD, "delete": ldap.MOD_DELETE, "replace": ldap.MOD_REPLACE}


def send(link: LdapObject, write: Write) -> int:
    """Send a write and return its message id. Raises ``InvalidValue`` if it cannot be sent."""
    try:
        match write:
            case Add(dn, attributes):
                return int(link.add_ext(dn, [(name, list(values)) for name, values in attributes.items()]))
            case Modify(dn, modifications):
                steps = [(_STEPS[step.op], step.attribute, _values_to_send(write, step)) for step in modifications]
                return int(link.modify_ext(dn, steps, serverctrls=_controls(write)))
            case Delete(dn, tree):
                return int(link.delete_ext(dn, serverctrls=[TREE_DELETE] if tree else []))
            case Rename(dn, new_rdn, new_parent):
                return int(link.rename(dn, new_rdn, newsuperior=new_parent, delold=1))
    except (TypeError, ValueError) as error:  # python-ldap refuses NUL and lone surrogates before sending
        raise InvalidValue("A name in the write has characters the directory cannot take") from error


def _values_to_send(write: Modify, step: Modification) -> list[bytes] | None:
    """The values of a step; new members with a time to live as TTL-DNs ([MS-ADTS] 3.1.1.9.2), which no read returns.

    Only a search with the control LDAP_SERVER_LINK_TTL_OID would return them ([MS-ADTS] 3.1.1.3.4.1.36).
    """
    if write.time_to_live is None or step.op != "add" or step.attribute.lower() != "member":
        return list(step.values) or None
    return [b"<TTL=%d,%b>" % (write.time_to_live, value) for value in step.values]


def _controls(write: Modify) -> list[RequestControl]:
    controls = []
    if write.deleted:
        controls.append(SHOW_DELETED)
    if any(step.attribute.lower() == "ntsecuritydescriptor" for step in write.modifications):
        controls.append(SD_FLAGS)
    return controls


class StillUnderWay(OutcomeUnknown):
    """A write was sent and is not answered yet. `answers` waits for what its connection still owes."""

    def __init__(self, answers: "LateAnswers") -> None:
        super().__init__("The directory has not answered yet")
        self.answers = answers


class LateAnswers:
    """The answers that a connection still owes, in the order of its writes; one thread at a time may wait for them.

    The connection serves nothing else: it is closed after the last answer, or when somebody gives them up.
    """

    def __init__(self, connection: Connection, messages: Iterable[int]) -> None:
        self._connection = connection
        self._messages = deque(messages)
        self.server = connection.server

    def next(self, seconds: float, *, guarded: bool = False) -> LdapError | None:
        """Wait for the next write's result: its error, or None. Raises StillUnderWay if it takes longer than `seconds`.

        Once the connection is lost, it returns OutcomeUnknown for all that are left.
        """
        if not self._messages:
            return OutcomeUnknown("The connection was lost before the directory answered")
        try:
            self._connection.ldap.result3(self._messages[0], timeout=max(0.001, seconds))
        except ldap.TIMEOUT:
            raise StillUnderWay(self) from None
        except ldap.LDAPError as failure:
            error = error_from(failure, guarded=guarded, writing=True)
            if isinstance(error, OutcomeUnknown):
                self.give_up()
                return error
            self._answered()
            return error
        self._answered()
        return None

    def give_up(self) -> None:
        """Close the connection, so that nothing that is still in its buffers is sent any more."""
        self._messages.clear()
        self._connection.abort()

    def _answered(self) -> None:
        self._messages.popleft()
        if not self._messages:
            self._connection.last_used = time.monotonic()
            self._connection.close()


_DEPTH = 32
"""Writes sent and not answered at a time: enough for the server never to wait for the next one."""


class Written(NamedTuple):
    """The result of one of many writes: its error, or None, and the host name of the server."""

    position: int
    error: LdapError | None
    server: str


class _UnderWay(NamedTuple):
    """A write that was sent under a message id, or the `error` that kept it from being sent."""

    message: int
    guarded: bool
    sent_at: float
    error: LdapError | None = None


class Pipeline:
    """Sends several writes on one connection without waiting for each answer.

    It sends no more once the connection is lost or an answer `is_late`.
    """

    def __init__(self, connection: Connection, writes: Iterator[Write], seconds: float) -> None:
        self.has_failed = False
        """Whether the server cannot serve requests, or the connection to it was lost."""
        self._is_lost = False
        self._late: LateAnswers | None = None
        self._connection = connection
        self._writes = writes
        self._seconds = seconds
        self._under_way: deque[_UnderWay] = deque()
        self._answered_at = 0.0

    @property
    def is_late(self) -> bool:
        """Whether the connection still owes answers that somebody may wait for."""
        return self._late is not None

    def run(self) -> Iterator[Written]:
        """Send all writes and yield their results in order."""
        numbers = count()
        while self._fill():
            yield Written(next(numbers), self._next_answer(), self._connection.server)
        for _ in self._writes:
            error = Unavailable("The connection was lost before this was sent")
            yield Written(next(numbers), error, self._connection.server)

    def _fill(self) -> bool:
        """Send until enough writes are under way or none is left; return whether any is under way."""
        while not self._is_lost and not self.is_late and len(self._under_way) < _DEPTH:
            write = next(self._writes, None)
            if write is None:
                break
            self._under_way.append(self._send(write))
        return bool(self._under_way)

    def _send(self, write: Write) -> _UnderWay:
        sent_at = time.monotonic()
        try:
            return _UnderWay(send(self._connection.ldap, write), write.guarded, sent_at)
        except InvalidValue as refused:
            error: LdapError = refused
        except ldap.LDAPError as failure:
            error = self._error_from(failure, guarded=write.guarded)
        return _UnderWay(0, write.guarded, sent_at, error)

    def _next_answer(self) -> LdapError | None:
        sent = self._under_way.popleft()
        if sent.error is not None:
            return sent.error
        if self._is_lost:
            return OutcomeUnknown("The connection was lost before the directory answered")
        if self._late is not None:
            return StillUnderWay(self._late)
        try:
            # Never zero: an answer that has arrived already must still be read.
            left = sent.sent_at + self._seconds - time.monotonic()
            self._connection.ldap.result3(sent.message, timeout=max(0.001, left))
        except ldap.TIMEOUT:
            measurements.listener.failed(self._connection.url, "write", "TIMEOUT")
            owed = (sent, *(each for each in self._under_way if each.error is None))
            self._late = LateAnswers(self._connection, [each.message for each in owed])
            return StillUnderWay(self._late)
        except ldap.LDAPError as failure:
            return self._error_from(failure, guarded=sent.guarded)
        now = time.monotonic()
        # Counted from the answer before, until which the server was busy with earlier writes.
        measurements.listener.used(self._connection.url, "write", now - max(sent.sent_at, self._answered_at))
        self._answered_at = now
        return None

    def _error_from(self, failure: ldap.LDAPError, *, guarded: bool) -> LdapError:
        error = error_from(failure, guarded=guarded, writing=True)
        self._is_lost = isinstance(error, OutcomeUnknown)
        if isinstance(error, OutcomeUnknown | Unavailable):
            self.has_failed = True
            measurements.listener.failed(self._connection.url, "write", type(failure).__name__)
        return error


_PROBE_SECONDS: Final = 5.0


def has_finished_writing(pool: Pool, deadline: float, server: str | None, at: UUID | str) -> bool:
    """Whether the server has finished or undone the write of an object that it was busy with; False if not in time.

    A domain controller shows the state before a write while it carries it out, and carries out writes of one object
    (Samba: all writes) one after another. So this sends a write that changes nothing, since it removes a value that is
    not there: its answer, whatever it is, comes after the write in progress. It may overtake writes that are queued;
    ask again a moment later to cover those. Raises Unavailable.
    """
    no_change = Modification("delete", "description", (f"none {uuid4()}".encode(),))
    connection = pool.acquire(deadline, server=server)
    try:
        connection.ldap.result3(send(connection.ldap, Modify(reference(at), (no_change,))), timeout=_PROBE_SECONDS)
    except BROKEN:
        pool.discard(connection)
        return False
    except ldap.LDAPError:  # no such value, no such object, no right to write it: any of them is an answer
        pool.release(connection)
        return True
    except BaseException:
        pool.discard(connection)
        raise
    pool.release(connection)
    return True
