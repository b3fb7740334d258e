"""Changes that agents ask for: held, marked, decided by others, applied as the agent may then, and braked."""

from typing import Any
from uuid import UUID

import pytest
from django.test import RequestFactory

from approvals.models import ChangeRequest
from approvals.review.deciders import conflict_reason
from audit.models import OperationRecord, WebhookDelivery, WebhookEndpoint
from core.errors import Forbidden, RateLimited, ServiceUnavailable
from core.operation import find_operation
from core.rate_limits import CountersUnavailable
from directory.models import DirectoryConnection
from gateway import pipeline
from gateway.pipeline import prepare
from keys.agents import grants, scopes
from keys.agents.identification import identify_agent
from keys.models import Person
from keys.models.agents import AgentGrant, Ended
from lab.directory import Directory
from tests.support.agents import Agent, make_agent
from tests.support.cast import Console, make_person, permissions
from tests.support.configuration import Configure
from tests.support.markup import text_of

pytestmark = pytest.mark.django_db

DECIDE = "approvals.decide_change"


@pytest.fixture
def agent(connection: DirectoryConnection) -> Agent:
    """Of somebody who could decide changes, too."""
    return make_agent(connection, may=[*scopes.permissions_of(scopes.SCOPES), DECIDE])


@pytest.fixture
def approver(db: None) -> Console:
    return Console(make_person(may=[DECIDE, "directory.read_object", "audit.read_log"]))


def ask(agent: Agent, operation: str, id: UUID, body: Any = None, **query: str) -> pipeline.Answer:
    """What the agent endpoint does with a call of one of its tools."""
    request = RequestFactory().post("/mcp", headers={"Authorization": f"Bearer {agent.token}"})
    inputs = pipeline.Inputs(arguments={"id": str(id)}, query=lambda: query, document=lambda: body)
    return pipeline.run(find_operation(operation), identify_agent(request), inputs)


def held(agent: Agent, user: UUID) -> ChangeRequest:
    answer = ask(agent, "users.delete", user)
    assert answer.status == 202
    return ChangeRequest.objects.get(pk=answer.body["changeRequest"]["id"])


def test_what_is_ordinary_is_done_and_on_record(agent: Agent, ada: UUID, directory: Directory) -> None:
    assert ask(agent, "users.update", ada, {"replace": {"title": "Countess"}}).status == 200
    assert directory.text(ada, "title") == "Countess"
    record = OperationRecord.objects.get(operation="users.update")
    client = agent.grant.client
    assert (record.surface, record.owner) == ("agent", agent.person.username)
    assert (record.key_name, record.credential_id) == (client.name, client.client_id)


def test_what_could_do_harm_waits_and_is_marked(agent: Agent, ada: UUID, approver: Console) -> None:
    endpoint = WebhookEndpoint.objects.create(name="All", url="https://hooks.example", events=["change-requests"])
    request = held(agent, ada)
    assert request.agent
    [told] = approver.get("/rest/change-requests?status=pending").body["items"]
    assert told["agent"] is True
    assert told["requestedBy"] == {"owner": agent.person.username, "keyName": agent.grant.client.name}
    for page in ("/console/changes/", f"/console/changes/{request.id}"):
        content = approver.client.get(page).content.decode()
        assert '<span class="badge accent">Agent</span>' in content, page
    assert '"agent":true' in WebhookDelivery.objects.get(endpoint=endpoint).body.replace(" ", "")
    record = OperationRecord.objects.get(outcome="queued")
    assert (record.surface, record.key_name) == ("agent", agent.grant.client.name)


def test_runs_are_marked(
    agent: Agent, ada: UUID, organizational_unit: str, directory: Directory, configure: Configure
) -> None:
    configure("Runs", WaitSeconds=0)
    AgentGrant.objects.update(supervision_level="act")
    started = ask(
        agent, "organization-units.disable-accounts", directory.guid(organizational_unit), {"scope": "subtree"}
    )
    assert started.status == 202, started.body
    person = Console(make_person(superuser=True))
    [run] = person.get("/rest/ad/runs").body["items"]
    assert (run["runId"], run["agent"]) == (started.body["runId"], True)
    for page in ("/console/runs/", f"/console/runs/{run['runId']}"):
        content = text_of(person.client.get(page).content)
        assert f"Agent {agent.grant.client.name}" in content, page


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_nobody_decides_what_their_own_agent_asks_for(decision: str, agent: Agent, ada: UUID) -> None:
    request, person = held(agent, ada), Console(agent.person)
    answer = person.post(
        f"/rest/change-requests/{request.id}/{decision}",
        {"digest": request.digest, "comment": "ok"} if decision == "approve" else {"comment": "no"},
    )
    assert (answer.status, answer.code) == (409, "Approvals.OwnRequest")


def test_another_agent_of_the_same_person_is_no_second_person(agent: Agent, ada: UUID) -> None:
    request = held(agent, ada)
    other = make_agent(agent.grant.connection, person=agent.person)
    with pytest.raises(Forbidden):  # no scope means the permission to decide
        ask(other, "change-requests.approve", request.id, {"digest": request.digest})


def test_approved_and_applied_as_the_agent_may_then(
    agent: Agent, ada: UUID, approver: Console, directory: Directory
) -> None:
    request = held(agent, ada)
    assert approver.post(f"/rest/change-requests/{request.id}/approve", {"digest": request.digest}).status == 200
    pipeline.apply_change_request(request.id)
    request.refresh_from_db()
    assert (request.status, request.problem) == ("applied", None)
    assert not directory.exists(ada)
    record = OperationRecord.objects.get(operation="users.delete", outcome="succeeded")
    assert (record.owner, record.key_name) == (agent.person.username, agent.grant.client.name)
    assert record.approved_by == approver.person.username


def revoked(agent: Agent) -> None:
    grants.end_with_record(agent.grant, Ended.BY_PERSON)


def deactivated(agent: Agent) -> None:
    Person.objects.filter(pk=agent.person.pk).update(is_active=False)


def may_less(agent: Agent) -> None:
    agent.person.user_permissions.set(permissions(["directory.read_object"]))


def let_do_less(agent: Agent) -> None:
    AgentGrant.objects.update(permissions=["directory.read_object"])


@pytest.mark.parametrize("change", [revoked, deactivated, may_less, let_do_less])
def test_what_no_longer_holds_is_not_applied(
    change: Any, agent: Agent, ada: UUID, approver: Console, directory: Directory
) -> None:
    request = held(agent, ada)
    assert approver.post(f"/rest/change-requests/{request.id}/approve", {"digest": request.digest}).status == 200
    change(agent)
    pipeline.apply_change_request(request.id)
    request.refresh_from_db()
    assert (request.status, request.problem["code"]) == ("failed", "Auth.Forbidden")
    assert directory.exists(ada)


def test_whoever_has_let_the_agent_act_more_freely_does_not_decide(agent: Agent, ada: UUID, approver: Console) -> None:
    request = held(agent, ada)
    assert conflict_reason(approver.person.pk, request) is None
    administrator = Console(make_person(superuser=True))
    AgentGrant.objects.update(supervision_level="ask_every_change")
    place = f"/rest/agents/{agent.grant.id}"
    assert administrator.patch(place, {"supervisionLevel": "ask_destructive_security"}).status == 200
    assert conflict_reason(administrator.person.pk, request) is not None
    assert conflict_reason(approver.person.pk, request) is None


def test_the_level_is_the_agents_own(agent: Agent, ada: UUID, directory: Directory) -> None:
    AgentGrant.objects.update(supervision_level="ask_every_change")
    assert ask(agent, "users.update", ada, {"replace": {"title": "Countess"}}).status == 202
    AgentGrant.objects.update(supervision_level="act")
    assert ask(agent, "users.delete", ada).status == 204
    assert not directory.exists(ada)


# --- the brake


def test_so_many_may_wait(agent: Agent, ada: UUID, approver: Console, configure: Configure) -> None:
    configure("Agents", MaxPendingRequests=1)
    request = held(agent, ada)
    with pytest.raises(RateLimited) as refusal:
        ask(agent, "users.disable", ada)
    assert int(refusal.value.headers["Retry-After"]) > 0
    assert "decided" in refusal.value.detail
    assert OperationRecord.objects.get(operation="users.disable").code == "RateLimit.Exceeded"
    assert ask(agent, "users.update", ada, {"replace": {"title": "Countess"}}).status == 200  # that does not wait
    assert make_agent(agent.grant.connection, person=agent.person).token  # another agent has a count of its own
    assert approver.post(f"/rest/change-requests/{request.id}/reject", {"comment": "no"}).status == 200
    assert ask(agent, "users.disable", ada).status == 202


def test_so_many_changes_an_hour(agent: Agent, ada: UUID, configure: Configure) -> None:
    configure("Agents", ChangesPerHour=1)
    ask(agent, "users.update", ada, {"replace": {"title": "One"}}, dryRun="true")  # only shows what would be
    assert ask(agent, "users.update", ada, {"replace": {"title": "One"}}).status == 200
    assert ask(agent, "users.update", ada, {"replace": {"title": "One"}}).status == 200  # changes nothing
    with pytest.raises(RateLimited) as refusal:
        ask(agent, "users.update", ada, {"replace": {"title": "Two"}})
    assert 0 < int(refusal.value.headers["Retry-After"]) <= 3600
    assert ask(agent, "users.read", ada).status == 200


def test_without_counters_agents_change_nothing(
    agent: Agent, ada: UUID, directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any) -> Any:
        raise CountersUnavailable

    monkeypatch.setattr(prepare, "count", away)
    with pytest.raises(ServiceUnavailable):
        ask(agent, "users.update", ada, {"replace": {"title": "Countess"}})
    assert directory.text(ada, "title") == "Analyst"
