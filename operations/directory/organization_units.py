"""Operations on organizational units: those that every kind has, delegations, and runs over their accounts."""

from collections.abc import Sequence
from functools import partial
from types import MappingProxyType
from typing import Annotated, Literal, cast
from uuid import UUID

from annotated_types import MinLen
from django.db.models import Q
from django.utils import timezone
from pydantic import Field, model_validator
from typing_extensions import Self, TypedDict

from active_directory import Client, Entry
from core.call import Call, Surface
from core.errors import GatewayError
from core.operation import HTTP_SURFACES, Effect, RateCategory, Risk, Target, find_operation, operation, rest_operation
from core.shapes import COMMA_SEPARATED, Guid, Id, PartialBody, Query, examples
from core.text.messages import message
from directory.lookup.access import client_of, find_object, is_within_any
from directory.lookup.visibility import may_see_values
from directory.models.runs import Plan
from directory.protection.state import DomainState, domain_state
from directory.runs import kept_assessment
from directory.runs import requests as runs
from directory.runs.assessment import (
    MAX_ACCOUNTS,
    Account,
    AccountKind,
    Action,
    SelectionScope,
    assess,
    assess_named,
    find_accounts,
)
from directory.runs.assessment import (
    Effect as AccountEffect,
)
from directory.runs.requests import RunResult
from directory.security.access_control import Delegations, DelegationsQuery
from directory.security.delegations import find_delegations
from directory.shapes.inputs import CreateOrganizationalUnit, UpdateOrganizationalUnit
from directory.shapes.kinds import Kind
from directory.shapes.proposal import AccountsRun, AttributeChange, Proposal
from directory.shapes.proposal import Target as ChangedObject
from directory.shapes.record import version_of
from keys.models import ApiKey, Person
from keys.models.agents import AgentGrant
from keys.permissions.more_privileged_people import more_privileged_people
from operations.directory.common_operations import declare_ordinary_operations

declare_ordinary_operations(
    "organization-units",
    create=CreateOrganizationalUnit,
    update=UpdateOrganizationalUnit,
    documentation={
        "rename": """Give an organizational unit another name.

        The distinguished names of everything below change with it.
        """,
    },
    move_risk=Risk.DESTRUCTIVE,
)


@operation(
    "organization-units.read-delegations",
    "GET ad/organization-units/{id}/delegations",
    "Read the delegations of {an organizational unit}",
    permission="directory.read_acl",
    target=Target.OBJECT,
    rate=RateCategory.DIRECTORY_SEARCH,
)
def read_delegations(call: Call, *, id: UUID, query: DelegationsQuery) -> Delegations:
    """Read which tasks were delegated to whom on an organizational unit."""
    return find_delegations(call, id, inherited=query.inherited)


class CredentialJson(TypedDict):
    id: Id
    name: str
    owner: str


class UnitCredentials(TypedDict):
    """The valid API keys and the connected agents of people whose accounts are in the unit."""

    keys: list[CredentialJson]
    agents: list[CredentialJson]


@rest_operation(
    "organization-units.list-credentials",
    "GET ad/organization-units/{id}/credentials",
    "List the keys and agents of {an organizational unit}",
    permission="keys.view_apikey",
    requires=frozenset({"keys.view_agentgrant"}),
    target=Target.OBJECT,
)
def list_credentials(call: Call, *, id: UUID) -> UnitCredentials:
    """List the API keys and agents of people whose accounts are in an organizational unit or below it."""
    unit, now = _find_unit(call, id), timezone.now()
    assert call.directory is not None
    of_directory = {"connection_id": call.directory.id, "is_active": True}
    people = Person.objects.filter(**of_directory).filter(Q(api_keys__isnull=False) | Q(agent_grants__isnull=False))
    guids = {guid for guid in people.values_list("object_guid", flat=True) if guid is not None}
    entries = client_of(call).read_many(guids, ("objectGUID",))
    inside = [guid for guid, entry in entries.items() if is_within_any(entry.dn, (unit.dn,))]
    keys = ApiKey.objects.filter(~Q(expires_at__lte=now), owner__object_guid__in=inside, revoked_at__isnull=True)
    agents = AgentGrant.objects.filter(person__object_guid__in=inside, ended_at__isnull=True, expires_at__gt=now)
    return {
        "keys": [
            {"id": str(key.id), "name": key.name, "owner": key.owner.username}
            for key in keys.select_related("owner").order_by("owner__username", "name")
        ],
        "agents": [
            {"id": str(agent.id), "name": agent.client.name, "owner": agent.person.username}
            for agent in agents.select_related("client", "person").order_by("person__username", "client__name")
        ],
    }


DEFAULT_KINDS: tuple[AccountKind, ...] = ("user",)
DEFAULT_SCOPE: SelectionScope = "one-level"


class TooManyAccounts(GatewayError):
    status, code = 400, "OrganizationUnitAccounts.TooMany"
    title = "More accounts are selected than one run may change"

    def __init__(self, selected: int) -> None:
        super().__init__(
            message(
                "{selected} accounts are selected; a run takes at most {limit}.",
                selected=selected,
                limit=MAX_ACCOUNTS,
            ),
            maxAccounts=MAX_ACCOUNTS,
            selected=selected,
        )


class PlanStale(GatewayError):
    """The plan does not hold any more, has expired, or is not this credential's for this unit and action."""

    status, code, title = 409, "OrganizationUnitAccounts.PlanStale", "The plan no longer holds; make a new one"


class PlanAccounts(Query):
    """Which accounts a run would be over."""

    action: Action = Field(description="What the run would do with each account.")
    kinds: Annotated[tuple[AccountKind, ...], MinLen(1), COMMA_SEPARATED] = Field(
        DEFAULT_KINDS, description="The kinds of accounts, with commas."
    )
    scope: SelectionScope = Field(DEFAULT_SCOPE, description="How deep below the unit.")


class RunAccounts(PartialBody):
    """The accounts of a run: `accounts` names them, or `kinds` and `scope` select them, or `planId` takes a plan's."""

    model_config = examples(
        {"kinds": ["user"], "scope": "subtree"},
        {"accounts": ["7d2d8a0e-3c55-4f2f-9d7f-0d6a3c0a2f11"]},
        {"planId": "5f0a7c1e-8a44-4d7e-b1a5-2c9a4c1f7e20"},
    )
    forms = MappingProxyType(
        {"RunNamedAccounts": ("accounts",), "RunSelectedAccounts": ("kinds", "scope"), "RunPlan": ("planId",)}
    )

    accounts: list[Guid] = Field(default=[], description="objectGUIDs of users and computers in the unit.")
    kinds: Annotated[list[AccountKind], MinLen(1)] = Field(default=[*DEFAULT_KINDS])
    scope: SelectionScope = DEFAULT_SCOPE
    plan_id: Guid | None = Field(default=None, description="A plan of the last hour, for this unit and action.")

    @model_validator(mode="after")
    def _require_one_form(self) -> Self:
        given = self.model_fields_set
        forms = ("accounts" in given) + bool({"kinds", "scope"} & given) + (self.plan_id is not None)
        if forms != 1 or ("plan_id" in given and self.plan_id is None):
            raise ValueError(message("give exactly one of accounts, kinds and scope, or planId"))
        return self


class UnitJson(TypedDict):
    id: Id
    distinguishedName: str


class PlannedAccount(TypedDict):
    id: Id
    distinguishedName: str
    samAccountName: str | None
    kind: Literal["user", "computer"]
    effect: Literal["change", "none", "protected"]


class AccountsPlan(TypedDict):
    """What a run would do now. Over the limit the first accounts are listed, and the plan cannot be run."""

    action: Action
    organizationalUnit: UnitJson
    kinds: list[AccountKind]
    scope: SelectionScope
    total: int
    limit: int
    withinLimit: bool
    planId: Id
    accounts: list[PlannedAccount]


@operation(
    "organization-units.plan-accounts",
    "GET ad/organization-units/{id}/accounts/plan",
    "Plan a run over the accounts of {an organizational unit}",
    permission="directory.run_accounts",
    target=Target.OBJECT,
)
def plan_accounts(call: Call, *, id: UUID, query: PlanAccounts) -> AccountsPlan:
    """Show which accounts of an organizational unit a run would change, without changing anything."""
    client = client_of(call)
    unit = _find_unit(call, id)
    kinds = list(dict.fromkeys(query.kinds))
    found = find_accounts(client, id, kinds=kinds, scope=query.scope)
    accounts = _assess(call, found.entries, query.action)
    assert call.directory is not None
    plan = Plan.objects.create(
        connection_id=call.directory.id,
        credential_id=call.credential.unique_id,
        unit=id,
        action=query.action,
        kinds=kinds,
        scope=query.scope,
        total=found.total,
        accounts=_planned_effects(accounts),
    )
    return {
        "action": query.action,
        "organizationalUnit": {"id": str(id), "distinguishedName": unit.dn},
        "kinds": kinds,
        "scope": query.scope,
        "total": found.total,
        "limit": MAX_ACCOUNTS,
        "withinLimit": found.total <= MAX_ACCOUNTS,
        "planId": str(plan.id),
        "accounts": [
            {
                "id": str(account.id),
                "distinguishedName": entry.dn,
                "samAccountName": entry.text("sAMAccountName") if may_see_values(call) else None,
                "kind": account.kind,  # type: ignore[typeddict-item] # only these two are found
                "effect": account.effect.value,  # type: ignore[typeddict-item] # what is found is not absent
            }
            for account, entry in zip(accounts, found.entries, strict=False)
        ],
    }


def _declare_run(action: Action, label: str, inverse: Action, risk: Risk, *, limit: int | None = MAX_ACCOUNTS) -> None:
    def run_accounts(call: Call, *, id: UUID, body: RunAccounts) -> Proposal:
        return _propose_run(call, id, body, action, risk, limit=limit)

    accounts, most = ("accounts", f" of at most {limit}") if limit else ("any number of accounts", "")
    run_accounts.__doc__ = f"{action.capitalize()} {accounts} of an organizational unit in one run{most}."
    operation(
        f"organization-units.{action}-{'' if limit else 'all-'}accounts",
        f"POST ad/organization-units/{{id}}/accounts/{action}{'' if limit else '-all'}",
        label,
        permission="directory.run_accounts",
        target=Target.OBJECT,
        requires=frozenset({f"directory.{action}_account"}),
        inverse=inverse,
        effect=Effect.CHANGE,
        risk=risk,
        body=RunAccounts,
        output=RunResult,
        surfaces=HTTP_SURFACES if limit else frozenset({Surface.REST}),
    )(run_accounts)


_declare_run("enable", "Enable the accounts of {an organizational unit}", "disable", Risk.SECURITY)
_declare_run("disable", "Disable the accounts of {an organizational unit}", "enable", Risk.DESTRUCTIVE)
_declare_run("enable", "Enable all accounts of {an organizational unit}", "disable", Risk.SECURITY, limit=None)
_declare_run("disable", "Disable all accounts of {an organizational unit}", "enable", Risk.DESTRUCTIVE, limit=None)


def _propose_run(
    call: Call, unit_id: UUID, body: RunAccounts, action: Action, risk: Risk, *, limit: int | None
) -> Proposal:
    named = list(dict.fromkeys(body.accounts))
    if limit:
        _require_within_limit(len(named))
    unit = _find_unit(call, unit_id)
    accounts, state = _select_accounts(call, unit_id, body, named, action, limit=limit)
    kept = kept_assessment.keep(state, accounts, client_of(call).schema)
    asked = AccountsRun(action, unit_id, tuple(account.id for account in accounts), kept)
    name = f"organization-units.{action}-accounts"
    has_work = any(account.effect is not AccountEffect.NONE for account in accounts)

    def answer() -> RunResult:
        dns = [account.distinguished_name for account in accounts]
        return runs.render_result(runs.record_unchanged_run(call, name, asked, unit_dn=unit.dn, account_dns=dns))

    before, after = ("disabled", "enabled") if action == "enable" else ("enabled", "disabled")
    return Proposal(
        target=ChangedObject(unit_id, Kind.ORGANIZATIONAL_UNIT, unit.dn, version_of(unit)),
        # An approver sees the accounts by name, in place of attributes.
        changes=tuple(
            AttributeChange(account.distinguished_name or "", (before,), (after,))
            for account in accounts
            if account.effect is AccountEffect.CHANGE
        ),
        run=asked if has_work else None,
        answer=answer,
        operation=name,  # each account's record is the same however many there are
        requires=find_operation(name).requires,
        risk=risk,
        warnings=tuple(
            f"{account.distinguished_name or account.id}: {account.refusal.detail}"
            for account in accounts
            if account.refusal is not None
        ),
        also_judged=tuple(account.as_target() for account in accounts),
        identities={account.distinguished_name: account.id for account in accounts if account.distinguished_name},
    )


def _select_accounts(
    call: Call, unit: UUID, body: RunAccounts, named: Sequence[UUID], action: Action, *, limit: int | None
) -> tuple[list[Account], DomainState]:
    """The accounts that the body names or selects, what a run would do to each, and a state before they were read."""
    client = client_of(call)
    if body.plan_id is not None:
        return _accounts_of_plan(call, client, unit, body.plan_id, action)
    if "accounts" in body.model_fields_set:
        state, above = domain_state(client), partial(more_privileged_people, call)
        return assess_named(client, unit, named, action, more_privileged_people=above, state=state), state
    found = find_accounts(client, unit, kinds=body.kinds, scope=body.scope, limit=limit)
    if limit:
        _require_within_limit(found.total)
    return _assess(call, found.entries, action), found.state


def _accounts_of_plan(
    call: Call, client: Client, unit: UUID, plan_id: UUID, action: Action
) -> tuple[list[Account], DomainState]:
    """The accounts of a plan if the same plan would be made now; raises PlanStale."""
    assert call.directory is not None
    plan = (
        runs.unexpired_plans()
        .filter(
            id=plan_id,
            connection_id=call.directory.id,
            credential_id=call.credential.unique_id,
            unit=unit,
            action=action,
        )
        .first()
    )
    if plan is None:
        raise PlanStale(
            message("There is no plan of yours with this id for this unit and action, or its hour is over.")
        )
    found = find_accounts(client, unit, kinds=plan.kinds, scope=cast(SelectionScope, plan.scope))
    _require_within_limit(found.total)
    accounts = _assess(call, found.entries, action)
    if plan.total != found.total or sorted(plan.accounts) != sorted(_planned_effects(accounts)):
        raise PlanStale(message("The accounts of the unit, or their states, are not those of the plan any more."))
    return accounts, found.state


def _assess(call: Call, found: Sequence[Entry], action: Action) -> list[Account]:
    return assess(client_of(call), found, action, more_privileged_people=partial(more_privileged_people, call))


def _planned_effects(accounts: Sequence[Account]) -> list[list[str]]:
    """The accounts and effects of a plan, to compare them later."""
    return [[str(account.id), account.effect.value] for account in accounts]


def _find_unit(call: Call, unit: UUID) -> Entry:
    return find_object(call, unit, kinds={Kind.ORGANIZATIONAL_UNIT}, attributes=("uSNChanged",))


def _require_within_limit(selected: int) -> None:
    if selected > MAX_ACCOUNTS:
        raise TooManyAccounts(selected)
