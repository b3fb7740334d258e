"""Which accounts a run is over: the plan, the three forms of a selection, their limit and their refusals."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.utils import timezone

from audit.models import OperationRecord
from directory.models import DirectoryConnection
from directory.models.runs import Plan, Run
from gateway.tasks import sweep_runs
from lab.directory import Directory
from tests.directory.runs.unit import Unit
from tests.support.cast import Integration, make_integration


def test_plan_shows_what_would_happen(unit: Unit, directory: Directory, integration: Integration) -> None:
    enabled = directory.add_user("Ada", parent=unit.dn, sAMAccountName="ada-plan")
    disabled = directory.add_user("Bea", parent=unit.dn, enabled=False)
    administrator = directory.add_user("Eve", parent=unit.dn)
    directory.add_values(f"CN=Domain Admins,CN=Users,{directory.base_dn}", member=directory.dn(administrator))
    directory.add_computer(parent=unit.dn)
    below = directory.add_unit("below", parent=unit.dn)
    directory.add_user(parent=below)

    answer = unit.plan(integration)

    assert answer.status == 200, answer
    plan_id = answer.body.pop("planId")
    assert Plan.objects.filter(id=plan_id).exists()
    assert answer.body == {
        "action": "disable",
        "organizationalUnit": {"id": str(unit.id), "distinguishedName": unit.dn},
        "kinds": ["user"],
        "scope": "one-level",
        "total": 3,
        "limit": 100,
        "withinLimit": True,
        "accounts": [
            {
                "id": str(enabled),
                "distinguishedName": f"CN=Ada,{unit.dn}",
                "samAccountName": "ada-plan",
                "kind": "user",
                "effect": "change",
            },
            {
                "id": str(disabled),
                "distinguishedName": f"CN=Bea,{unit.dn}",
                "samAccountName": directory.text(disabled, "sAMAccountName"),
                "kind": "user",
                "effect": "none",
            },
            {
                "id": str(administrator),
                "distinguishedName": f"CN=Eve,{unit.dn}",
                "samAccountName": directory.text(administrator, "sAMAccountName"),
                "kind": "user",
                "effect": "protected",
            },
        ],
    }


def test_kinds_and_scope_select(unit: Unit, directory: Directory, integration: Integration) -> None:
    directory.add_user(parent=unit.dn)
    directory.add_computer(parent=unit.dn)
    directory.add_computer(parent=directory.add_unit("below", parent=unit.dn))

    computers = unit.plan(integration, "action=enable&kinds=computer")
    everything = unit.plan(integration, "action=enable&kinds=user,computer&scope=subtree")

    assert [account["kind"] for account in computers.body["accounts"]] == ["computer"]
    assert sorted(account["kind"] for account in everything.body["accounts"]) == ["computer", "computer", "user"]
    assert everything.body["kinds"] == ["user", "computer"]


@pytest.mark.parametrize(
    "query", ["", "action=remove", "action=disable&kinds=", "action=disable&kinds=group", "action=disable&scope=base"]
)
def test_plan_refuses_bad_queries(unit: Unit, integration: Integration, query: str) -> None:
    answer = unit.plan(integration, query)
    assert (answer.status, answer.code) == (400, "Request.Invalid")
    assert answer.body["errors"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"accounts": [], "kinds": ["user"]},
        {"accounts": [], "planId": str(uuid4())},
        {"scope": "subtree", "planId": str(uuid4())},
        {"accounts": None},
        {"planId": None},
        {"kinds": []},
        {"kinds": "user"},
        {"kinds": ["group"]},
        {"scope": "base"},
        {"accounts": ["not-a-uuid"]},
    ],
)
def test_exactly_one_form_is_taken(unit: Unit, integration: Integration, body: object) -> None:
    answer = unit.run(integration, body)
    assert (answer.status, answer.code) == (400, "Request.Invalid"), answer
    assert not Run.objects.exists()


def test_more_than_the_limit_is_refused_whole(unit: Unit, integration: Integration) -> None:
    users = unit.add_users(101)

    plan = unit.plan(integration)
    by_selection = unit.run(integration, {"kinds": ["user"]})
    by_plan = unit.run(integration, {"planId": plan.body["planId"]})
    by_name = unit.run(integration, {"accounts": [str(uuid4()) for _ in range(102)]})

    assert (plan.body["total"], plan.body["withinLimit"], len(plan.body["accounts"])) == (101, False, 100)
    for answer, selected in ((by_selection, 101), (by_plan, 101), (by_name, 102)):
        assert (answer.status, answer.code) == (400, "OrganizationUnitAccounts.TooMany")
        assert (answer.body["maxAccounts"], answer.body["selected"]) == (100, selected)
    assert unit.count_enabled(users[:3]) == 3
    assert not Run.objects.exists()


def test_a_plan_that_no_longer_holds_is_refused(unit: Unit, directory: Directory, integration: Integration) -> None:
    first, second = unit.add_users(2)

    def is_stale(change: object) -> bool:
        answer = unit.run(integration, {"planId": plan_id})
        return (answer.status, answer.code) == (409, "OrganizationUnitAccounts.PlanStale")

    plan_id = unit.plan(integration).body["planId"]
    assert is_stale(directory.modify(second, userAccountControl="546"))  # an effect has drifted
    plan_id = unit.plan(integration).body["planId"]
    assert is_stale(directory.add_user(parent=unit.dn))  # the selection has drifted
    plan_id = unit.plan(integration).body["planId"]
    assert is_stale(Plan.objects.filter(id=plan_id).update(created_at=timezone.now() - timedelta(minutes=61)))
    plan_id = unit.plan(integration, "action=enable").body["planId"]
    assert is_stale(None)  # the plan is for the other action
    plan_id = str(uuid4())
    assert is_stale(None)
    assert directory.is_enabled(first)
    assert not Run.objects.exists()


def test_a_plan_belongs_to_its_credential(
    unit: Unit, connection: DirectoryConnection, integration: Integration
) -> None:
    unit.add_users(1)
    plan_id = unit.plan(integration).body["planId"]
    answer = unit.run(make_integration(connection), {"planId": plan_id})
    assert answer.code == "OrganizationUnitAccounts.PlanStale"


def test_old_plans_are_forgotten(unit: Unit, integration: Integration) -> None:
    old, new = (unit.plan(integration).body["planId"] for _ in range(2))
    Plan.objects.filter(id=old).update(created_at=timezone.now() - timedelta(minutes=61))
    sweep_runs()
    assert list(Plan.objects.values_list("id", flat=True).filter(id__in=[old, new])) == [Plan.objects.get(id=new).id]


@pytest.mark.parametrize("missing", ["directory.run_accounts", "directory.disable_account"])
def test_a_run_needs_both_permissions(unit: Unit, connection: DirectoryConnection, missing: str) -> None:
    may = {"directory.run_accounts", "directory.disable_account", "directory.enable_account"} - {missing}
    answer = unit.run(make_integration(connection, may=may), {"kinds": ["user"]})
    assert (answer.status, answer.code) == (403, "Auth.Forbidden")
    record = OperationRecord.objects.get(operation="organization-units.disable-accounts")
    assert (record.outcome, record.code, record.target_id) == ("failed", "Auth.Forbidden", unit.id)


def test_a_unit_outside_the_scopes_is_forbidden(
    unit: Unit, directory: Directory, connection: DirectoryConnection
) -> None:
    elsewhere = directory.guid(f"CN=Users,{directory.base_dn}")
    answer = unit.run(make_integration(connection, scopes=[elsewhere]), {"kinds": ["user"]})
    assert answer.status == 403


def test_what_is_no_unit_is_not_found(directory: Directory, organizational_unit: str, integration: Integration) -> None:
    user = directory.add_user(parent=organizational_unit)
    for target in (user, uuid4()):
        answer = integration.get(f"/api/ad/organization-units/{target}/accounts/plan?action=disable")
        assert (answer.status, answer.code) == (404, "AD.Object.NotFound")


def test_dry_run_shows_each_account(unit: Unit, directory: Directory, integration: Integration) -> None:
    directory.add_user("Ada", parent=unit.dn)
    directory.add_user("Bea", parent=unit.dn, enabled=False)
    answer = integration.post(
        f"/api/ad/organization-units/{unit.id}/accounts/disable?dryRun=true", {"scope": "one-level"}
    )
    assert answer.body == {
        "dryRun": True,
        "wouldQueue": False,
        "risk": "destructive",
        "changes": [{"attribute": f"CN=Ada,{unit.dn}", "before": ["enabled"], "after": ["disabled"]}],
        "warnings": [
            "This is a destructive change: disable accounts of an organizational unit in one run of at most 100."
        ],
    }
    assert not Run.objects.exists()


def test_nothing_to_do_needs_no_worker(unit: Unit, integration: Integration) -> None:
    (user,) = unit.add_users(1, enabled=False)
    answer = unit.run(integration, {"accounts": [str(user), str(user).upper()]})
    assert (answer.status, answer.body["state"]) == (200, "completed")
    assert (answer.body["total"], answer.body["unchanged"]) == (1, 1)
    assert integration.get(f"/api/ad/runs/{answer.body['runId']}").body == answer.body
    assert not OperationRecord.objects.filter(outcome="succeeded", operation__endswith="disable-accounts").exists()
