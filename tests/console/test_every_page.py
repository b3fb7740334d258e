"""Every address of the console as an administrator's browser asks for it, in each language: none may fail."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import Group
from django.db import connection as database

from approvals.models import ChangeRequest
from audit.chain import sealing, verifying
from audit.models import OperationRecord, Outcome
from console.urls import urlpatterns
from core.call import SupervisionLevel
from core.operation import Effect, find_operation
from core.text.invisible import is_invisible
from directory.models import DirectoryConnection, MembershipRule
from directory.models.filters_and_templates import ChangeTemplate, SavedFilter
from directory.models.runs import Run
from keys.models import ApiKey, Person, Role
from keys.sign_in import sessions
from lab.directory import Directory
from tests.console.pages import post
from tests.support.agents import make_agent
from tests.support.cast import Console, make_integration, make_person

_PLACE = re.compile(r"<(?:\w+:)?(\w+)>")
_MOST_ARE_THERE = 120
_WRITES = re.compile(r'(?:INSERT INTO|UPDATE|DELETE FROM) "(\w+)"', re.IGNORECASE)


@pytest.fixture
def console(connection: DirectoryConnection) -> Console:
    return Console(make_person(superuser=True))


@pytest.fixture
def places(
    connection: DirectoryConnection, directory: Directory, organizational_unit: str, ada: UUID, console: Console
) -> dict[str, list[str]]:
    """One of each thing that addresses name, by the name of the place."""
    group = directory.add_group(parent=organizational_unit, members=[ada])
    gone = directory.add_user(parent=organizational_unit)
    directory.delete(gone)
    integration = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    held = integration.patch(f"/api/ad/users/{ada}", {"replace": {"title": ["Countess"]}})
    assert held.status == 202, held
    with_grant = make_agent(connection)
    saved = SavedFilter.objects.create(
        connection=connection, owner=console.person, name="Counts", kind="user", filter="(title=*)", scope="subtree"
    )
    template = ChangeTemplate.objects.create(connection=connection, name="Leaver", occasion="leaver")
    rule = MembershipRule.objects.create(connection=connection, group_guid=group, max_duration=timedelta(hours=8))
    unit = directory.guid(organizational_unit)
    plan = console.get(f"/console/runs/new?action=disable&now=true&unit={unit}").body.decode()
    fields = dict(re.findall(r'<input type="hidden" name="(planId|unit|action|kinds|scope)" value="([^"]*)"', plan))
    post(console, "/console/runs/new", reason="Everybody left", **fields)
    key = ApiKey.objects.get(pk=integration.key.pk)
    return {
        "object_id": [str(ada), str(group), str(unit), str(gone)],
        "request_id": [str(ChangeRequest.objects.get().id)],
        "record_id": [
            *{(each.operation, each.outcome): str(each.id) for each in OperationRecord.objects.all()}.values()
        ],
        "template_id": [str(template.id)],
        "rule_id": [str(rule.id)],
        "run_id": [str(Run.objects.get().id)],
        "filter_id": [str(saved.id)],
        "key_id": [str(key.id)],
        "role_id": [str(key.role_id)],
        "person_id": [str(console.person.pk), str(key.owner_id)],
        "group_id": [str(Group.objects.create(name="Help desk").pk)],
        "connection_id": [str(connection.id)],
        "agent_id": [str(with_grant.grant.id)],
        "client_id": [str(with_grant.grant.client_id)],
        "state": ["locked-out", "disabled", "expired", "password-expired", "no-such-state"],
        "step": ["name", "role", "limits", "level", "check", "no-such-step"],
        "name": ["joiner", "mover", "leaver", "disable", "no-such-recipe"],
    }


def _addresses(places: dict[str, list[str]]) -> list[str]:
    found = []
    for pattern in urlpatterns:
        route = str(pattern.pattern)
        names = _PLACE.findall(route)
        values = places.get(names[0], [str(uuid4())]) if names else [""]
        for value in values:
            address = _PLACE.sub(value, route, count=1)
            found.append("/console/" + _PLACE.sub(str(uuid4()), address))
    return found


def _status_of(answer: Any) -> int:
    if answer.streaming:
        assert b"".join(answer) is not None  # what fails while it is sent fails here
    return int(answer.status_code)


def _with_queries(places: dict[str, list[str]]) -> list[str]:
    """Pages that show little without being asked something."""
    ada, group, unit, _gone = places["object_id"]
    [change] = places["request_id"]
    return [
        f"/console/{path}"
        for path in (
            f"log/evidence?target={ada}",
            "log/evidence?q=Ada&outcome=succeeded&from=2026-01-01T00:00Z&to=2036-01-01T00:00Z",
            "log/?q=Ada&now=yes",
            f"changes/{change}?decided={uuid4()}",
            f"changes/together?ids={change}",
            f"changes/together/forecasts?ids={change}",
            f"directory/?base={unit}&now=yes",
            "directory/?q=Ada&now=yes",
            "directory/new?kind=user",
            "directory/new?kind=group",
            f"directory/objects/{ada}/compare?with={ada}",
            f"directory/objects/{group}/members?now=yes",
            f"directory/objects/{group}/members/add?add=Ada",
            f"directory/objects/{ada}/groups/join?group=Ana",
            f"directory/selection/recipes?chosen={ada}",
            f"directory/selection/recipes/leaver?chosen={ada}",
            "runs/?state=queued",
            "keys/?state=active",
            "account?shown=x",
        )
    ]


@pytest.mark.parametrize("may", [[], ["directory.read_object", "audit.read_log"], ["approvals.decide_change"]])
def test_no_page_fails_for_who_may_see_less(places: dict[str, list[str]], may: list[str]) -> None:
    """What they may not see is refused, as a page and as a part of one."""
    console = Console(make_person(may=may))
    failed = {
        (address, headers.get("HX-Request")): status
        for address in (*_addresses(places), *_with_queries(places))
        for headers in ({}, {"HX-Request": "true"})
        if (status := _status_of(console.client.get(address, headers=headers))) >= 500
    }
    assert failed == {}


def test_no_page_fails_or_changes_anything(
    places: dict[str, list[str]], console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a kind of object, or an identifier, is not the one that the page is for.

    Only forms carry a token against requests that other sites make a browser send: whatever is asked for by GET must
    leave everything as it is.
    """
    # That its session is in use was noted while the places were made. It would be again after a minute.
    monkeypatch.setattr(sessions, "SEEN_EVERY", timedelta(days=1))
    sealing.seal_records()
    verifying.verify()
    addresses = [*_addresses(places), *_with_queries(places)]
    answered: dict[str, list[int]] = {address: [] for address in addresses}
    before = [record.id for record in OperationRecord.objects.all()]
    written: set[str] = set()

    def note(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        written.update(_WRITES.findall(sql))
        return execute(sql, *rest)

    with database.execute_wrapper(note):
        for language in ("en", "de"):
            for address in addresses:
                answer = console.client.get(address, headers={"Accept-Language": language})
                answered[address].append(_status_of(answer))
    expected = {200, 302, 400, 404, 405, 409}
    assert {address: statuses for address, statuses in answered.items() if not set(statuses) <= expected} == {}
    assert {address: statuses for address, statuses in answered.items() if len(set(statuses)) > 1} == {}
    assert sum(statuses == [200, 200] for statuses in answered.values()) > _MOST_ARE_THERE
    # Where a page opens a connection to the directory, the gateway's own sign-in there is counted.
    assert written <= {"audit_operationrecord", "directory_passwordattempt", "directory_bindpassword"}
    recorded = {
        record.operation for record in OperationRecord.objects.exclude(id__in=before).exclude(outcome=Outcome.FAILED)
    }
    assert {name for name in recorded if find_operation(name).effect is not Effect.READ} == set()


DECEIVING = "Ex\u202etxe\u200b\u2066.\u00adcanary"
MARKED = "Ex⟨U+202E⟩txe⟨U+200B⟩⟨U+2066⟩.⟨U+00AD⟩canary"


def test_no_page_shows_what_nobody_sees(
    places: dict[str, list[str]], console: Console, connection: DirectoryConnection, directory: Directory, ada: UUID
) -> None:
    """Whatever has such a name: it is marked where people read, and comes back as it is from forms."""
    group = directory.add_group(f"{DECEIVING} עדה", parent=directory.dn(ada).partition(",")[2], members=[ada])
    directory.rename(ada, DECEIVING)
    directory.modify(ada, displayName=DECEIVING, title=DECEIVING, description=DECEIVING)
    integration = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    for each, field in (
        *((ApiKey, "name"), (Role, "name"), (Group, "name"), (Person, "display_name"), (SavedFilter, "name")),
        *((ChangeTemplate, "name"), (Run, "reason"), (DirectoryConnection, "name")),
    ):
        for number, row in enumerate(each._default_manager.all()):
            each._default_manager.filter(pk=row.pk).update(**{field: f"{DECEIVING} {number}"})
    change = {"replace": {"department": [DECEIVING]}}
    held = integration.patch(f"/api/ad/users/{ada}", change)
    assert held.status == 202, held.body
    ChangeRequest.objects.update(reason=DECEIVING)
    ApiKey.objects.filter(pk=integration.key.pk).update(supervision_level=SupervisionLevel.ACT.value)
    assert integration.patch(f"/api/ad/users/{ada}", change).status == 200
    places["request_id"].append(held.body["changeRequest"]["id"])
    places["record_id"] = [str(record.id) for record in OperationRecord.objects.order_by("-id")[:5]]
    places["object_id"].append(str(group))
    bad, telling, isolating = {}, 0, 0
    for address in _addresses(places):
        answer = console.client.get(address)
        if answer.headers.get("Content-Type", "").startswith("text/html"):
            page = answer.content.decode()
            if shown := {each for each in page if is_invisible(each) and each not in "\t\n\r\u00a0\u202f"}:
                bad[address] = shown
            telling += MARKED in page
            isolating += "<bdi>עדה</bdi>" in page
    assert bad == {}
    assert telling > 25
    assert isolating > 1
