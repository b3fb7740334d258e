"""The accounts that the gateway itself signs in with, and the groups that give them their rights.

Whoever controls one of them may do what the gateway may do, past every role and approval. So the account of every
connection is known, enabled or not, by its SID, which neither another spelling of the bind name nor a new name of the
account changes. For whom it takes the client's own connection the directory itself says; the bind names of the others
are looked up in the client's domain.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import monotonic
from uuid import UUID

from active_directory import (
    And,
    Client,
    DistinguishedName,
    Equals,
    Filter,
    InvalidValue,
    Or,
    guid_reference,
    sid_to_text,
    text_to_sid,
)
from directory.groups.ancestry import ABOVE_ATTRIBUTES, groups_above
from directory.lookup.connection import bind_names, connection_of, learn_bind_account
from directory.lookup.kept import kept_by_client
from directory.models import DirectoryConnection
from directory.protection.domain_infrastructure import places_of

IDENTITY_SECONDS = 60.0
"""For how long it is believed whom a bind name stands for. Whom it stood for before is not forgotten."""

_IS_ACCOUNT = Equals("objectClass", "user")  # a computer's account is one too
_OF_A_DOMAIN = "S-1-5-21-"
_SID = re.compile(r"<SID=(S-1-[-0-9]+)>|(S-1-[-0-9]+)", re.IGNORECASE)
_GUID = re.compile(r"<GUID=([-0-9a-f]+)>|\{([-0-9a-f]+)\}", re.IGNORECASE)


def bind_accounts(client: Client) -> Mapping[bytes, str]:
    """The SIDs of all bind accounts, each with the name of its connection; those of other domains as far as learnt."""
    identities = _identities_of(client)
    names = bind_names()
    own = connection_of(client)
    found = dict.fromkeys(identities.own(client, next((row for row in names if row.pk == own), None)), "")
    for row in names:
        known = {text_to_sid(row.bind_account)} if row.bind_account else set()
        found |= dict.fromkeys(known | identities.named(client, row), row.name)
    return found


def sids_signed_in_with(client: Client) -> frozenset[bytes]:
    """The SIDs that the directory counts to whoever is signed in by the client; read with `bind_accounts`."""
    return _identities_of(client).token


def groups_of_bind_accounts(client: Client) -> frozenset[bytes]:
    """The SIDs of all groups that bind accounts are in, directly or not, as they are now."""
    accounts = bind_accounts(client)
    found = set(_identities_of(client).token)
    domain_sid = places_of(client).domain_sid
    for sid in accounts:
        if sid[8:-4] == domain_sid[8:]:
            found |= _groups_of(client, sid)
    return frozenset(found.difference(accounts))


def _groups_of(client: Client, sid: bytes) -> set[bytes]:
    """The groups of an account: as the domain controller computes them, else as far as they can be read."""
    account = client.find(f"<SID={sid_to_text(sid)}>", (*ABOVE_ATTRIBUTES, "objectGUID", "tokenGroups"))
    if account is None:
        return set()
    if computed := account.values("tokenGroups"):
        return set(computed)
    return {sid for above in groups_above(client, account) for sid in above.group.values("objectSid")}


class _Identities:
    """Whom the bind names stand for in one client's domain, and ever stood for since this process began."""

    def __init__(self) -> None:
        self.token: frozenset[bytes] = frozenset()
        """The SIDs that the directory counts to whoever is signed in by the client: the account's, and its groups'."""
        self._known: dict[str, tuple[frozenset[bytes], float]] = {}

    def own(self, client: Client, row: DirectoryConnection | None) -> frozenset[bytes]:
        """The account as which the client is signed in: [MS-ADTS] 3.1.1.3.2, tokenGroups of the rootDSE."""

        def find() -> frozenset[bytes]:
            self.token = frozenset(client.read("", ("tokenGroups",)).values("tokenGroups"))
            of_domains = [sid for sid in self.token if sid_to_text(sid).startswith(_OF_A_DOMAIN)]
            if not of_domains:
                return frozenset()
            found = _find_accounts(client, Or(*(Equals("objectSid", sid) for sid in of_domains)))
            if len(found) == 1 and row is not None:
                learn_bind_account(row, sid_to_text(*found))
            return found

        return self._remember("", find)

    def named(self, client: Client, row: DirectoryConnection) -> frozenset[bytes]:
        """The accounts of the client's domain that a bind name stands for."""

        def find() -> frozenset[bytes]:
            found = accounts_of_bind_name(client, row.bind_dn)
            if len(found) == 1 and row.bind_account_learnt_for != row.bind_dn:
                learn_bind_account(row, sid_to_text(*found))
            return found

        return self._remember(row.bind_dn, find)

    def _remember(self, name: str, find: Callable[[], frozenset[bytes]]) -> frozenset[bytes]:
        known, read_at = self._known.get(name, (frozenset[bytes](), None))
        if read_at is None or monotonic() - read_at >= IDENTITY_SECONDS:
            now = monotonic()
            known |= find()
            self._known[name] = known, now
        return known


_identities_of = kept_by_client(lambda _: _Identities())


def accounts_of_bind_name(client: Client, name: str) -> frozenset[bytes]:
    """The SIDs of the accounts of the client's domain that a name of a simple bind may stand for ([MS-ADTS] 5.1.1.1.1).

    Where the domain that it names is not sure, an account too many is found rather than one too few.
    """
    name = name.strip()
    if named := _SID.fullmatch(name):
        with suppress(ValueError):
            return frozenset((text_to_sid((named[1] or named[2]).upper()),))
    if named := _GUID.fullmatch(name):
        with suppress(ValueError):
            return _sid_of(client, guid_reference(UUID(named[1] or named[2])))
    with suppress(InvalidValue):
        parsed = DistinguishedName.parse(name)
        if parsed.rdns:
            is_of_domain = parsed.is_within(DistinguishedName.parse(client.default_naming_context))
            return _sid_of(client, str(parsed)) if is_of_domain else frozenset()
    return _find_accounts(client, _condition(name))


def _condition(name: str) -> Filter:
    """What the accounts have in common that a name stands for which is none of an object.

    DOMAIN\\name, a userPrincipalName (given or implied: name@domain), a canonical name (domain/unit/name), a display
    name, a service principal name.
    """
    if "\\" in name:
        return Equals("sAMAccountName", name.rpartition("\\")[2])
    possible: list[Filter] = [Equals(each, name) for each in ("displayName", "servicePrincipalName", "sAMAccountName")]
    if "@" in name:
        possible += [Equals("userPrincipalName", name), Equals("sAMAccountName", name.rpartition("@")[0])]
    if "/" in name:
        possible.append(Equals("name", name.rpartition("/")[2]))
    return Or(*possible)


def _sid_of(client: Client, reference: str) -> frozenset[bytes]:
    try:
        entry = client.find(reference, ("objectSid",))
    except InvalidValue:
        entry = None
    return frozenset(() if entry is None else entry.values("objectSid"))


def _find_accounts(client: Client, condition: Filter) -> frozenset[bytes]:
    rows = client.search_domain(And(_IS_ACCOUNT, condition), ("objectSid",))
    return frozenset(sid for row in rows for sid in row.values("objectSid"))
