"""A run that waits for approval, shown as its plan was: each account with what the run would mean for it now."""

from functools import partial
from typing import Literal
from uuid import UUID

from typing_extensions import TypedDict

from approvals.errors import NotPending
from approvals.models import Status
from approvals.review.decisions import find_request
from core.call import Call, Surface
from core.errors import NotFound
from core.operation import SIGNED_IN, RateCategory, operation
from core.shapes import Id, parse_guid
from directory import errors as directory_errors
from directory.lookup.access import client_of
from directory.lookup.visibility import may_see_values
from directory.runs.assessment import Account, Action, assess_named
from gateway import pipeline
from keys.permissions.more_privileged_people import more_privileged_people
from operations.approvals.change_requests.requests import find_visible

_ACTIONS: dict[str, Action] = {
    "organization-units.enable-accounts": "enable",
    "organization-units.disable-accounts": "disable",
}


class WaitingAccountJson(TypedDict):
    """An account of the run. `changed` tells that the run would mean something else for it than when it was asked for;
    one that is not there any more has only its id."""

    id: Id
    distinguishedName: str | None
    samAccountName: str | None
    kind: str
    effect: Literal["change", "none", "protected", "absent"]
    changed: bool


class WaitingRunJson(TypedDict):
    """What an approved run would do now, each account in the order in which it would be done."""

    action: Action
    organizationalUnit: str
    total: int
    accounts: list[WaitingAccountJson]


@operation(
    "change-requests.read-run-plan",
    "GET change-requests/{id}/run-plan",
    "Read the run that {a change request} asks for",
    permission=SIGNED_IN,
    rate=RateCategory.DIRECTORY_SEARCH,
    output=WaitingRunJson,
    surfaces=frozenset({Surface.REST}),
)
def read_run_plan(call: Call, *, id: UUID) -> WaitingRunJson:
    """Read what a run that waits for approval would mean for each of its accounts now.

    404 for a request of anything else; 409 for one that does not wait any more.
    """
    seen = find_visible(call, id)
    action = _ACTIONS.get(seen.operation)
    if action is None:
        raise NotFound
    if seen.status != Status.PENDING:
        raise NotPending
    request = find_request(id, with_input=True)
    kept = request.kept_input()
    asked = [guid for text in kept["document"]["accounts"] if (guid := parse_guid(text)) is not None]
    then = {item["attribute"] for item in request.changes}
    run_call = pipeline.call_of(request)
    with directory_errors.translated():
        accounts = assess_named(
            client_of(run_call),
            UUID(kept["arguments"]["id"]),
            asked,
            action,
            more_privileged_people=partial(more_privileged_people, run_call),
        )
    return {
        "action": action,
        "organizationalUnit": request.target_dn,
        "total": len(accounts),
        "accounts": [_as_json(account, then, may_see=may_see_values(call)) for account in accounts],
    }


def _as_json(account: Account, then: set[str], *, may_see: bool) -> WaitingAccountJson:
    name = account.distinguished_name
    return {
        "id": str(account.id),
        "distinguishedName": name,
        "samAccountName": account.entry.text("sAMAccountName") if account.entry and may_see else None,
        "kind": account.kind,
        "effect": account.effect.value,
        "changed": name is None or (account.effect == "change") != (name in then),
    }
