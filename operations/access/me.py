"""Who the caller is and what they may do."""

from typing import Annotated, Literal

from typing_extensions import TypedDict

from approvals.budgets import BudgetJson, budgets_of
from core.call import Call, SupervisionLevel
from core.operation import SIGNED_IN, operation
from core.shapes import Id, Moment, documented_as, render_timestamp


class SubjectRecord(TypedDict):
    username: str
    displayName: str


class CredentialRecord(TypedDict):
    kind: Annotated[str, documented_as(Literal["apiKey", "platformToken", "session"])]
    name: str | None
    expiresAt: Moment | None


class ChosenDirectory(TypedDict):
    name: str
    clientId: Id


class MeRecord(TypedDict):
    """`scopes` are the objectGUIDs of the role's scopes, or of the person's if it has none; empty if nothing confines.

    If several sets of scopes confine the caller, by role, person or groups, these are the first set.
    """

    subject: SubjectRecord
    credential: CredentialRecord
    directory: ChosenDirectory | None
    permissions: list[str]
    scopes: list[Id]
    supervisionLevel: Annotated[str, documented_as(SupervisionLevel)] | None
    budgets: list[BudgetJson]


@operation("me.read", "GET me", "Read who is calling", permission=SIGNED_IN)
def read_me(call: Call) -> MeRecord:
    """Show who the credential acts as, for which directory, and what it may do now."""
    return {
        "subject": {"username": call.person.username, "displayName": call.person.display_name},
        "credential": {
            "kind": call.credential.kind.value,
            "name": call.credential.name,
            "expiresAt": render_timestamp(call.credential.expires_at),
        },
        "directory": {"name": call.directory.name, "clientId": call.directory.client_id} if call.directory else None,
        "permissions": sorted(call.permissions),
        "scopes": [str(scope) for scope in (call.scopes[0] if call.scopes else ())],
        "supervisionLevel": call.supervision.value if call.supervision else None,
        "budgets": [budget.as_json() for budget in budgets_of(call)],
    }
