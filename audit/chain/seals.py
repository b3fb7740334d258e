"""What reveals tampering with the log: the MAC of each record, and the seals that chain the records.

Both are HMACs under a key that is not in the database. A record's MAC, made with it, covers all that never changes, so
a record that somebody else inserts or changes is not authentic. A seal covers the records of a moment and its
predecessor's MAC, so no record can be removed, exchanged or set back to an earlier state. When the gateway itself
removes old records, and then the seals that named them, another seal says so (`removals`). Seals cannot reveal that the
newest ones were cut off together with their records; therefore a checkpoint of the head is kept outside the database
(`checkpoint`).

`sealing` makes seals, `retention` removes old records, `verification` looks for tampering, `archive` keeps months.
"""

import hmac
import json
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.models import BinaryField, Value
from django.db.transaction import TransactionManagementError

from audit.models import OPEN_OUTCOMES, LogSeal, LogVerification, OperationRecord, VerifiedRange

# The columns whose changes the database's triggers allow (`audit.migrations._append_only`).
TABLE = "audit_operationrecord"
SEALS = "audit_logseal"

COMPLETION = ("outcome", "completed_at", "code", "settle_at", "settle_attempts")
"""Columns that the completion of a record sets."""
FILLED_IN = ("server", "target_id", "target_dn")
"""Columns that the completion may set where they were NULL."""
SEALING = ("seal", "sealed_as")
"""Columns that sealing sets."""

_OWN: Final = frozenset({"mac", "call_id", *SEALING})
"""Columns that no MAC covers. `call_id` says nothing of what was done, and during an upgrade processes of the previous
release, which do not know it, still seal records."""
_LATER: Final = frozenset({*COMPLETION, *FILLED_IN})
_COLUMNS: Final = tuple(field.attname for field in OperationRecord._meta.concrete_fields if field.attname not in _OWN)
_DEFAULTS: Final = {field.attname: field.get_default() for field in OperationRecord._meta.concrete_fields}
_AT_FIRST: Final = tuple(sorted(name for name in _COLUMNS if name not in _LATER))
_AT_LAST: Final = tuple(sorted((*_COLUMNS, "mac")))
_ADDED: Final = frozenset({"raised_access", "reads"})
"""Columns that came later. They are left out while NULL, so that the MACs of older records still hold."""

OPEN, FINAL, REMOVED, CLOSED = b"o", b"f", b"r", b"c"
"""Phases of an entry: a record that was open, identified by its MAC; one that is complete, by a digest of all of it; a
removal of the complete records from before a moment; or that the seals before one were removed with their records."""
ENTRY_BYTES: Final = 1 + 16 + 32
CLOSED_UP_TO: Final = b"\xff" * 8
"""The beginning of a digest's identifiers, above those of all records: the number of a seal follows."""


class Entry(NamedTuple):
    """One record in a seal; or a removal of the records before `record_id`, whose number is in `digest`."""

    phase: bytes
    record_id: UUID
    digest: bytes

    @property
    def is_of_record(self) -> bool:
        return self.phase in (OPEN, FINAL)


def mac_of(facts: Mapping[str, Any]) -> str:
    """The MAC of a new record, 64 hex digits, from its fields; missing ones have their defaults."""
    return _code(b"record", _canonical({name: facts.get(name, _DEFAULTS[name]) for name in _AT_FIRST})).hex()


def is_authentic(record: OperationRecord) -> bool:
    """Whether the gateway made this record, and nobody changed what never changes."""
    content = _canonical({name: getattr(record, name) for name in _AT_FIRST})
    return _is_code(b"record", content, record.mac)


def is_as_sealed(record: OperationRecord, entry: Entry) -> bool:
    """Whether the gateway made this record and it is still as its entry in a seal states."""
    facts = {name: _plain(getattr(record, name)) for name in _AT_LAST}  # the same for both codes
    if not _is_code(b"record", _canonical({name: facts[name] for name in _AT_FIRST}), record.mac):
        return False
    if entry.phase == OPEN:
        return _is_same(entry.digest, record.mac)
    return _is_code(b"complete record", _canonical(facts), entry.digest.hex())


def entry_of(record: OperationRecord) -> Entry:
    """The entry of a record in a seal that is made now."""
    if record.outcome in OPEN_OUTCOMES:
        return Entry(OPEN, record.id, bytes.fromhex(record.mac))
    return Entry(FINAL, record.id, _code(b"complete record", _final_content(record)))


def codes_of_read(facts: Mapping[str, Any]) -> tuple[str, Entry]:
    """The MAC of a new record of a read and its entry in a seal, as `mac_of` and `entry_of` make them.

    Reads that follow each other differ in few fields, so the rest of both contents is made once.
    """
    first, last = _contents_of_reads(tuple(map(facts.get, _ALIKE)))
    own = {name: _encode(_plain(facts.get(name))) for name in _DIFFERENT}
    mac = _code(b"record", (first % own).encode()).hex()
    return mac, Entry(FINAL, facts["id"], _code(b"complete record", (last % {**own, "mac": f'"{mac}"'}).encode()))


_DIFFERENT: Final = ("at", "completed_at", "id", "request_id", "target_dn", "target_id")
_ALIKE: Final = tuple(name for name in _COLUMNS if name not in _DIFFERENT)


@lru_cache(maxsize=256)
def _contents_of_reads(values: tuple[Any, ...]) -> tuple[str, str]:
    """What the two codes cover of reads with these values of `_ALIKE`, to be completed by `%`."""
    alike = {name: _DEFAULTS[name] if value is None else value for name, value in zip(_ALIKE, values, strict=True)}
    gaps = {name: secrets.token_hex() for name in (*_DIFFERENT, "mac")}

    def content(names: tuple[str, ...]) -> str:
        text = _canonical({name: (alike | gaps)[name] for name in names}).decode().replace("%", "%%")
        for name, gap in gaps.items():
            text = text.replace(f'"{gap}"', f"%({name})s")
        return text

    return content(_AT_FIRST), content(_AT_LAST)


def removal_entry(kept_from: UUID, removed: int) -> Entry:
    """The entry of a removal of all complete records whose identifiers, which sort by time, are below `kept_from`."""
    return Entry(REMOVED, kept_from, removed.to_bytes(32))


def count_removed(entry: Entry) -> int:
    """The number of records that a removal's entry states."""
    return int.from_bytes(entry.digest)


def digest_entries(last: LogSeal, kept_from: UUID, removed: int) -> list[Entry]:
    """The entries of a digest: the last seal that is closed, with its MAC, and what matters of removed records."""
    closed = UUID(bytes=CLOSED_UP_TO + last.number.to_bytes(8))
    stated = kept_from.bytes + removed.to_bytes(16)
    return [Entry(CLOSED, closed, bytes.fromhex(last.mac)), Entry(CLOSED, closed, stated)]


def read_digest(packed: bytes) -> tuple[int, str, UUID, int] | None:
    """The inverse of `digest_entries`; None if these are entries of something else."""
    if len(packed) != 2 * ENTRY_BYTES or packed[::ENTRY_BYTES] != 2 * CLOSED:
        return None
    (_, closed, mac), (_, _, stated) = unpack(packed)
    return int.from_bytes(closed.bytes[8:]), mac.hex(), UUID(bytes=stated[:16]), int.from_bytes(stated[16:])


def matches_entry(record: OperationRecord, entry: Entry) -> bool:
    """Whether a record is still as its entry in a seal states."""
    if entry.phase == OPEN:
        return _is_same(entry.digest, record.mac)
    return _is_code(b"complete record", _final_content(record), entry.digest.hex())


def _final_content(record: OperationRecord) -> bytes:
    return _canonical({name: getattr(record, name) for name in _AT_LAST})


def pack(entries: Iterable[Entry]) -> bytes:
    return b"".join(entry.phase + entry.record_id.bytes + entry.digest for entry in entries)


def unpack(packed: bytes) -> Iterator[Entry]:
    for start in range(0, len(packed), ENTRY_BYTES):
        part = packed[start : start + ENTRY_BYTES]
        yield Entry(part[:1], UUID(bytes=part[1:17]), part[17:])


def find_entries(record_id: UUID) -> Iterator[tuple[int, Entry]]:
    """The entries of a record with the numbers of their seals, found by an index. Most records have one or two."""
    last, first = LogSeal._meta.indexes[0].expressions
    sought = Value(record_id.bytes, output_field=BinaryField())
    around = LogSeal.objects.alias(last=last, first=first).filter(last__gte=sought, first__lte=sought).order_by("last")
    for number, entries in around.values_list("number", "entries").iterator(chunk_size=2):
        found = (entry for entry in unpack(bytes(entries)) if entry.record_id == record_id and entry.is_of_record)
        yield from ((number, entry) for entry in found)


def seal_after(previous: LogSeal | None, entries: Iterable[Entry], *, at: datetime) -> LogSeal:
    """The next seal of the chain, not saved."""
    packed = pack(entries)
    seal = LogSeal(
        number=previous.number + 1 if previous else 1,
        sealed_at=at,
        records=(previous.records if previous else 0) + len(packed) // ENTRY_BYTES,
        entries=packed,
        key=name_of_key(settings.LOG_KEYS[0]),
    )
    seal.mac = _code(b"seal", _seal_content(seal, previous)).hex()
    return seal


def name_of_key(key: str) -> str:
    """The identifier of a key in the seals that it makes; it reveals nothing of the key."""
    return _code(b"name of the key", b"", key).hex()[:16]


def is_successor(seal: LogSeal, previous: LogSeal | None) -> bool:
    """Whether a seal is unchanged and was made right after `previous`."""
    return _is_code(b"seal", _seal_content(seal, previous), seal.mac)


def verification_mac(verification: LogVerification) -> str:
    """The MAC of a stored verification."""
    return _code(b"verification", _verification_content(verification)).hex()


def is_authentic_verification(verification: LogVerification) -> bool:
    """Whether the gateway stored this verification itself."""
    return _is_code(b"verification", _verification_content(verification), verification.mac)


def checkpoint_mac(head: Mapping[str, Any]) -> str:
    """The MAC of a checkpoint of the chain's head."""
    return _code(b"mark", _canonical(head)).hex()


def is_checkpoint_mac(head: Mapping[str, Any], code: str) -> bool:
    """Whether the gateway made this checkpoint itself."""
    return _is_code(b"mark", _canonical(head), code)


def range_mac(verified: VerifiedRange) -> str:
    """The MAC of a verified range of seals."""
    return _code(b"verified range", _range_content(verified)).hex()


def is_authentic_range(verified: VerifiedRange) -> bool:
    """Whether the gateway verified this range itself."""
    return _is_code(b"verified range", _range_content(verified), verified.mac)


def _range_content(verified: VerifiedRange) -> bytes:
    facts = {name: getattr(verified, name) for name in ("run", "first", "last", "at", "whole_at")}
    return _canonical(facts) + bytes(verified.learnt)


def _verification_content(verification: LogVerification) -> bytes:
    facts = {name: getattr(verification, name) for name in ("at", "seals", "records", "finding")}
    is_whole = verification.first_seal is None
    return _canonical(facts if is_whole else {**facts, "first_seal": verification.first_seal})


def _seal_content(seal: LogSeal, previous: LogSeal | None) -> bytes:
    head = {
        "number": seal.number,
        "previous": previous.mac if previous else "",
        "records": seal.records,
        "sealed_at": seal.sealed_at,
        **({"key": seal.key} if seal.key else {}),
    }
    return _canonical(head) + bytes(seal.entries)


def _canonical(content: Mapping[str, Any]) -> bytes:
    """Serialize fields to bytes that are the same before they are stored and after they are read back."""
    return _encode({name: value for name, value in content.items() if value is not None or name not in _ADDED}).encode()


def _text(value: Any) -> str:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else str(value)


def _plain(value: Any) -> Any:
    """A column's value as JSON writes it."""
    return _text(value) if isinstance(value, datetime | UUID) else value


_encode: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_text).encode


def _code(purpose: bytes, content: bytes, key: str | None = None) -> bytes:
    return hmac.digest(
        (key or settings.LOG_KEYS[0]).encode(), b"operations log, " + purpose + b"\0" + content, "sha256"
    )


def _is_code(purpose: bytes, content: bytes, code: str) -> bool:
    return any(_is_same(_code(purpose, content, key), code) for key in settings.LOG_KEYS)


def _is_same(own: bytes, stored: str) -> bool:
    """Compare in constant time. The stored value may be anything that somebody put into the database."""
    return hmac.compare_digest(own.hex().encode(), str(stored).encode("utf-8", "surrogatepass"))


@contextmanager
def deletions_allowed(*, trigger: str = "audit_no_delete") -> Iterator[None]:
    """Allow deletions of records inside the block, in the caller's transaction, if the log is the database user's own.

    Only `audit.chain.retention` may use it. If the block fails, the transaction's rollback ends it. On SQLite the
    trigger, of records or of seals, is taken off, while nobody else can write.
    """
    if not connection.in_atomic_block:
        # Outside a transaction the log would be unprotected for everybody until the trigger is back.
        raise TransactionManagementError("the guard of the operations log is lifted for one transaction only")
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            lift, restore = (f"SET LOCAL gateway.removes_records = '{value}'" for value in ("on", "off"))
        else:
            cursor.execute("SELECT sql FROM sqlite_master WHERE type = 'trigger' AND name = %s", [trigger])
            lift, (restore,) = f"DROP TRIGGER {trigger}", cursor.fetchone()
        cursor.execute(lift)
        yield
        cursor.execute(restore)
