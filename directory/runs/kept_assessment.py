"""The assessment that a run is requested with, kept with the run: its worker need not read the accounts again.

It holds only while nothing at all has changed in the domain, which the domain controller's highestCommittedUSN shows.
What the gateway's own tables say of an account's person is looked up again in any case.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final, cast
from uuid import UUID

from active_directory import Client, Entry, Schema, pack_versions, servers_asked_so_far
from core.database import shared_clock
from core.shapes import Json
from directory.lookup.replication import is_changed_elsewhere
from directory.models.runs import Run
from directory.protection.state import DomainState, domain_state
from directory.queries.account_searches import USER_ACCOUNT_CONTROL
from directory.runs.assessment import MAX_ACCOUNTS, Account, Action, Effect, MorePrivilegedPeople, assess_entry

MAX_AGE: Final = timedelta(minutes=1)
"""For how long it is kept: a domain controller that is set back to a backup repeats its numbers."""

_METADATA = "replPropertyMetaData"


def keep(state: DomainState, accounts: Sequence[Account], schema: Schema) -> Json | None:
    """What to keep of accounts that were read after `state`, of the first step of a run.

    None if anything that they rest on was read from another domain controller.
    """
    if state.usn is None or servers_asked_so_far() != {state.server}:
        return None
    rows = [_row_of(account, _attid_of_control(schema)) for account in accounts[:MAX_ACCOUNTS]]
    return {"state": state.fingerprint, "server": state.server, "accounts": rows}


def recall(
    client: Client, run: Run, accounts: Sequence[UUID], *, more_privileged_people: MorePrivilegedPeople
) -> list[Account] | None:
    """The kept assessment of some accounts of a run, in their order; None if they have to be assessed again."""
    kept = run.assessment
    if kept is None or shared_clock.now() - run.created_at > MAX_AGE:
        return None
    server, rows = kept["server"], dict(zip(map(UUID, run.accounts), kept["accounts"], strict=False))
    # The log first: a change that is made after this look at it changes the domain's state.
    if not rows.keys() >= set(accounts) or is_changed_elsewhere(client, accounts, server, besides_run=run.id):
        return None
    if domain_state(client.at(server)).fingerprint != kept["state"]:
        return None
    above, attid = set(more_privileged_people(accounts)), _attid_of_control(client.schema)
    recalled = []
    for guid in accounts:
        if (row := rows[guid]) is None:
            recalled.append(Account(guid, None, Effect.ABSENT))
            continue
        dn, kind, control, version, was_protected = row
        values = {
            "objectGUID": [guid.bytes_le],
            "objectClass": [kind.encode()],
            USER_ACCOUNT_CONTROL: [control.encode()],
        }
        if version is not None and attid is not None:
            values[_METADATA] = [pack_versions({attid: version})]
        entry = Entry(dn, values, server=server)
        is_protected = was_protected or guid in above
        recalled.append(assess_entry(client.schema, entry, cast(Action, run.action), is_protected=is_protected))
    return recalled


def _row_of(account: Account, attid: int | None) -> list[object] | None:
    """The name, kind and userAccountControl of an account, the version of that attribute, and whether it is protected.

    None for an absent account.
    """
    entry = account.entry
    if entry is None:
        return None
    version = entry.versions.get(attid, 0) if attid is not None and _METADATA in entry else None
    control = entry.text(USER_ACCOUNT_CONTROL)
    return [entry.dn, account.kind, control, version, account.effect is Effect.PROTECTED]


def _attid_of_control(schema: Schema) -> int | None:
    attribute = schema.attribute(USER_ACCOUNT_CONTROL)
    return None if attribute is None else attribute.attid
