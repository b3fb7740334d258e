"""The accounts that the gateway itself signs in with, and the groups that give them their rights.

Anybody who controls one of these accounts may do what the gateway may do, past every role and approval. So the account
of every connection, enabled or not, is protected by its SID, which does not change with the spelling of the bind name
or the name of the account. The directory itself says which account the client's own connection is signed in with; the
bind names of other connections are looked up in the client's domain.
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
from directory.groups import MEMBERSHIP_ATTRIBUTES, groups_above
from directory.lookup.connection import cached_per_client, connection_id_of, known_connections, learn_bind_account
from directory.models import DirectoryConnection
from directory.protection.domain_control import critical_containers

IDENTITY_SECONDS = 60.0
"""How long a process relies on the account found for a bind name. Accounts found earlier stay protected."""

_ACCOUNT_FILTER = Equals("objectClass", "user")  # the class of computer accounts, too
_DOMAIN_SID_PREFIX = "S-1-5-21-"
_SID = re.compile(r"<SID=(S-1-[-0-9]+)>|(S-1-[-0-9]+)", re.IGNORECASE)
_GUID = re.compile(r"<GUID=([-0-9a-f]+)>|\{([-0-9a-f]+)\}", re.IGNORECASE)


def bind_accounts(client: Client) -> Mapping[bytes, str]:
    """The SIDs of all bind accounts, with the names of their connections (empty for the client's own).

    Accounts of other domains are among them once their own connections have found them.
    """
    identities = _identities_of(client)
    names = known_connections()
    own = connection_id_of(client)
    found = dict.fromkeys(identities.own(client, next((row for row in names if row.pk == own), None)), "")
    for row in names:
        known = {text_to_sid(row.bind_account)} if row.bind_account else set()
        found |= dict.fromkeys(known | identities.named(client, row), row.name)
    return found


def token_sids(client: Client) -> frozenset[bytes]:
    """The SIDs in the token of the client's session, as `bind_accounts` last read them."""
    return _identities_of(client).token


def groups_of_bind_accounts(client: Client) -> frozenset[bytes]:
    """The SIDs of all groups that bind accounts are in now, directly or through other groups."""
    accounts = bind_accounts(client)
    found = set(_identities_of(client).token)
    domain_sid = critical_containers(client).domain_sid
    for sid in accounts:
        if sid[8:-4] == domain_sid[8:]:  # an account of this domain: the last four octets are its RID
            found |= _groups_of(client, sid)
    return frozenset(found.difference(accounts))


def _groups_of(client: Client, sid: bytes) -> set[bytes]:
    """The groups of an account, as the domain controller computes them or, failing that, as far as they can be read."""
    account = client.find(f"<SID={sid_to_text(sid)}>", (*MEMBERSHIP_ATTRIBUTES, "objectGUID", "tokenGroups"))
    if account is None:
        return set()
    if computed := account.values("tokenGroups"):
        return set(computed)
    return {sid for above in groups_above(client, account) for sid in above.group.values("objectSid")}


class _Identities:
    """The accounts that bind names stand for in one client's domain, or have stood for since this process began."""

    def __init__(self) -> None:
        self.token: frozenset[bytes] = frozenset()
        """The SIDs in the token of the client's session: of the account and its groups."""
        self._known: dict[str, tuple[frozenset[bytes], float]] = {}

    def own(self, client: Client, row: DirectoryConnection | None) -> frozenset[bytes]:
        """The account that the client is signed in with, from tokenGroups of the rootDSE ([MS-ADTS] 3.1.1.3.2)."""

        def find() -> frozenset[bytes]:
            self.token = frozenset(client.read("", ("tokenGroups",)).values("tokenGroups"))
            of_domains = [sid for sid in self.token if sid_to_text(sid).startswith(_DOMAIN_SID_PREFIX)]
            if not of_domains:
                return frozenset()
            found = _find_accounts(client, Or(*(Equals("objectSid", sid) for sid in of_domains)))
            if len(found) == 1 and row is not None:
                learn_bind_account(row, sid_to_text(*found))
            return found

        return self._cached("", find)

    def named(self, client: Client, row: DirectoryConnection) -> frozenset[bytes]:
        """The accounts of the client's domain that a bind name stands for."""

        def find() -> frozenset[bytes]:
            found = accounts_of_bind_name(client, row.bind_dn)
            if len(found) == 1 and row.bind_account_learnt_for != row.bind_dn:
                learn_bind_account(row, sid_to_text(*found))
            return found

        return self._cached(row.bind_dn, find)

    def _cached(self, name: str, find: Callable[[], frozenset[bytes]]) -> frozenset[bytes]:
        known, read_at = self._known.get(name, (frozenset[bytes](), None))
        if read_at is None or monotonic() - read_at >= IDENTITY_SECONDS:
            now = monotonic()
            known |= find()
            self._known[name] = known, now
        return known


_identities_of = cached_per_client(lambda _: _Identities())


def accounts_of_bind_name(client: Client, name: str) -> frozenset[bytes]:
    """The SIDs of accounts in the client's domain that the name in a simple bind may stand for ([MS-ADTS] 5.1.1.1.1).

    Where it is not certain which domain the name means, an account too many is found rather than one too few.
    """
    name = name.strip()
    if named := _SID.fullmatch(name):
        with suppress(ValueError):
            return frozenset((text_to_sid((named[1] or named[2]).upper()),))
    if named := _GUID.fullmatch(name):
        with suppress(ValueError):
            return _find_sid(client, guid_reference(UUID(named[1] or named[2])))
    with suppress(InvalidValue):
        parsed = DistinguishedName.parse(name)
        if parsed.rdns:
            is_of_domain = parsed.is_within(DistinguishedName.parse(client.default_naming_context))
            return _find_sid(client, str(parsed)) if is_of_domain else frozenset()
    return _find_accounts(client, _bind_name_filter(name))


def _bind_name_filter(name: str) -> Filter:
    """The filter for the accounts that a bind name may stand for which identifies no object.

    It may be DOMAIN\\name, a userPrincipalName (stored, or implied as name@domain), a canonical name
    (domain/unit/name), a display name or a service principal name.
    """
    if "\\" in name:
        return Equals("sAMAccountName", name.rpartition("\\")[2])
    possible: list[Filter] = [Equals(each, name) for each in ("displayName", "servicePrincipalName", "sAMAccountName")]
    if "@" in name:
        possible += [Equals("userPrincipalName", name), Equals("sAMAccountName", name.rpartition("@")[0])]
    if "/" in name:
        possible.append(Equals("name", name.rpartition("/")[2]))
    return Or(*possible)


def _find_sid(client: Client, reference: str) -> frozenset[bytes]:
    try:
        entry = client.find(reference, ("objectSid",))
    except InvalidValue:
        entry = None
    return frozenset(() if entry is None else entry.values("objectSid"))


def _find_accounts(client: Client, condition: Filter) -> frozenset[bytes]:
    rows = client.search_domain(And(_ACCOUNT_FILTER, condition), ("objectSid",))
    return frozenset(sid for row in rows for sid in row.values("objectSid"))
