"""Accounts that services run under: how each type is found, and what its record says besides."""

from collections.abc import Collection, Iterator, Sequence
from functools import partial

from active_directory import (
    AccessMask,
    And,
    Client,
    Entry,
    Filter,
    MalformedDescriptor,
    Or,
    Present,
    parse_descriptor,
)
from directory.lookup.visibility import Visibility
from directory.queries.account_filters import DELEGATED_MANAGED, GROUP_MANAGED, MANAGED, user_accounts
from directory.queries.searches.definitions import Search
from directory.security.principals import find_principals
from directory.shapes.kinds import Kind
from directory.shapes.service_account import ServiceAccount, ServiceAccountPart, ServiceAccountType

_SPN = "servicePrincipalName"
_HOSTS = "msDS-HostServiceAccountBL"
_READERS = "msDS-GroupMSAMembership"
_INTERVAL = "msDS-ManagedPasswordInterval"
# Who is granted one of these may fetch the password ([MS-ADTS] 3.1.1.4.4, msDS-ManagedPassword).
_MAY_READ = AccessMask.READ_PROPERTY | AccessMask.GENERIC_READ | AccessMask.GENERIC_ALL

_CLASS_OF_TYPE: dict[ServiceAccountType, str] = {
    "managed": "msds-managedserviceaccount",
    "group-managed": "msds-groupmanagedserviceaccount",
    "delegated-managed": "msds-delegatedmanagedserviceaccount",
}


def search_for(
    client: Client, types: Collection[ServiceAccountType], *, visibility: Visibility | None = None
) -> Search:
    """The search for service accounts of these types, whose records carry `serviceAccount`; of whom they name, as much
    as a caller may see.
    """
    filters: dict[ServiceAccountType, Filter] = {
        "managed": MANAGED,
        "group-managed": GROUP_MANAGED,
        "delegated-managed": DELEGATED_MANAGED,
        "user-with-spn": And(user_accounts(client), Present(_SPN)),
    }
    return Search(
        name="service-accounts",
        kinds=frozenset({Kind.USER, Kind.SERVICE_ACCOUNT}),
        condition=Or(*(filters[name] for name in dict.fromkeys(types))),
        needs=(_SPN, _HOSTS, _READERS, _INTERVAL),
        extend=lambda _, seen: {"serviceAccount": _part(seen)},
        complete=partial(_name_readers, client, visibility),
    )


def _name_readers(client: Client, visibility: Visibility | None, records: Sequence[ServiceAccount]) -> None:
    """Name those who may fetch the passwords of these accounts, all of them at once."""
    readers = [reader for record in records for reader in record["serviceAccount"]["passwordReaders"]]
    principals = find_principals(client, (reader["sid"] for reader in readers), visibility=visibility)
    for reader in readers:
        reader.update(principals[reader["sid"]])


def _part(entry: Entry) -> ServiceAccountPart:
    classes = {name.lower() for name in entry.object_classes}
    return {
        "type": next((name for name, known in _CLASS_OF_TYPE.items() if known in classes), "user-with-spn"),
        "servicePrincipalNames": entry.texts(_SPN),
        "hosts": entry.texts(_HOSTS),
        "passwordReaders": [{"sid": sid, "name": None, "id": None} for sid in dict.fromkeys(_reader_sids(entry))],
        "passwordChangeIntervalDays": entry.integer(_INTERVAL),
    }


def _reader_sids(entry: Entry) -> Iterator[str]:
    for value in entry.values(_READERS):
        try:
            descriptor = parse_descriptor(value)
        except MalformedDescriptor:  # nor can the domain controller grant anything by it
            continue
        for ace in descriptor.dacl.aces if descriptor.dacl else ():
            if ace.allows and ace.applies_here and ace.sid is not None and ace.mask & _MAY_READ:
                yield ace.sid
