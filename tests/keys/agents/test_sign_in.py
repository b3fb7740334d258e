"""The sign-in of agents from metadata to revocation, and every misuse that RFC 9700 knows of it."""

from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.test import Client, RequestFactory
from django.utils import timezone
from oauth2_provider.models import Grant as AuthorizationCode

from audit.models import OperationRecord
from core.call import Call
from core.errors import Unauthorized
from directory.models import DirectoryConnection
from keys.agents import grants
from keys.agents.identification import identify_agent
from keys.agents.scopes import permissions_of
from keys.models import Person
from keys.models.agents import AgentAccessToken, AgentClient, AgentGrant, AgentRefreshToken
from tests.keys.agents.sign_in import AUDIENCE, Program, answer_in, decide, sign_in
from tests.support.agents import make_agent
from tests.support.cast import PASSWORD, Console, make_integration, send
from tests.support.configuration import Configure

pytestmark = pytest.mark.django_db


def identify(token: str, **headers: str) -> Call:
    return identify_agent(RequestFactory().post("/mcp", headers={"Authorization": f"Bearer {token}", **headers}))


def is_good(token: str) -> bool:
    try:
        identify(token)
    except Unauthorized:
        return False
    return True


def test_it_works(console: Console, corp: DirectoryConnection) -> None:
    """From the address of the endpoint alone to a token that says who, for whom, where and what."""
    http = Client()
    resource = send(http, "GET", "/.well-known/oauth-protected-resource/mcp").body
    assert (resource["resource"], resource["authorization_servers"]) == (AUDIENCE, ["http://testserver"])
    server = send(http, "GET", "/.well-known/oauth-authorization-server").body
    assert server["issuer"] == "http://testserver"
    assert server["code_challenge_methods_supported"] == ["S256"]
    assert server["grant_types_supported"] == ["authorization_code", "refresh_token"]
    program = Program()
    registered = program.register()
    assert registered.status == 201
    assert registered.body["token_endpoint_auth_method"] == "none"
    assert "client_secret" not in registered.body
    assert urlsplit(server["authorization_endpoint"]).path == urlsplit(program.address()).path
    told = answer_in(decide(console, program.address()))
    assert (told["state"], told["iss"]) == (program.state, server["issuer"])
    answer = program.exchange(told["code"])
    assert answer.status == 200
    assert (answer.body["token_type"], answer.body["expires_in"], answer.body["scope"]) == (
        "Bearer",
        900,
        "read change",
    )
    assert answer.headers["Cache-Control"] == "no-store"
    call = identify(answer.body["access_token"])
    assert (call.person.id, call.credential.name, call.credential.id) == (
        console.person.pk,
        "Claude",
        program.client_id,
    )
    assert call.permissions == permissions_of(["read", "change"])
    assert call.directory is not None
    assert call.directory.id == corp.id
    [record] = OperationRecord.objects.filter(operation="agents.create")
    assert (record.owner, record.surface, record.outcome) == (console.person.username, "rest", "succeeded")
    shown = {change["attribute"]: change["after"] for change in record.changes}
    assert (shown["clientName"], shown["scopes"]) == (["Claude"], ["read", "change"])


@pytest.mark.parametrize("suffix", ["", "/mcp"])
@pytest.mark.parametrize("document", ["oauth-protected-resource", "oauth-authorization-server"])
def test_metadata(document: str, suffix: str, configure: Configure) -> None:
    answer = send(Client(), "GET", f"/.well-known/{document}{suffix}")
    assert answer.status == 200
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert send(Client(), "POST", f"/.well-known/{document}{suffix}").status == 405
    configure("Agents", Enabled=False)
    assert send(Client(), "GET", f"/.well-known/{document}{suffix}").code == "Request.NotFound"


def test_nothing_of_it_is_stored_that_could_be_used(console: Console, program: Program) -> None:
    """A thief of the database gets neither a code nor a token."""
    code = answer_in(decide(console, program.address()))["code"]
    stored = [str(row) for row in AuthorizationCode.objects.values()]
    tokens = program.exchange(code).body
    for model in (AgentGrant, AgentAccessToken, AgentRefreshToken, AgentClient, AuthorizationCode, OperationRecord):
        stored += [str(row) for row in model.objects.values()]
    assert not [row for row in stored for secret in (code, *tokens.values()) if len(str(secret)) > 20 and secret in row]
    for digest in (*AgentAccessToken.objects.values_list("token_checksum", flat=True),):
        assert not is_good(digest)


# --- codes


def test_a_code_counts_once_and_its_second_use_ends_the_tokens(program: Program, code: str) -> None:
    tokens = program.exchange(code).body
    assert is_good(tokens["access_token"])
    assert (again := program.exchange(code)).status == 400
    assert again.body["error"] == "invalid_grant"
    assert not is_good(tokens["access_token"])
    assert program.refresh(tokens["refresh_token"]).body["error"] == "invalid_grant"
    grant = AgentGrant.objects.get()
    assert grant.ended_for == "code-reused"
    record = OperationRecord.objects.get(operation="agents.revoke")
    assert (record.owner, record.target_id) == ("(gateway)", grant.pk)


MISMATCHES: dict[str, dict[str, Any]] = {
    "another verifier": {"code_verifier": "x" * 43},
    "no verifier": {"code_verifier": None},
    "another redirect": {"redirect_uri": "http://127.0.0.1:1/callback"},
    "another resource": {"resource": "https://other.example/mcp"},
    "two resources": {"resource": [AUDIENCE, "https://other.example/mcp"]},
    "another host": {"resource": None, "HTTP_HOST": "gateway.example.test"},
    "an unknown client": {"client_id": "unknown"},
    "no client": {"client_id": None},
    "another grant": {"grant_type": "client_credentials"},
    "a password": {"grant_type": "password", "username": "ada", "password": PASSWORD},
    "a repeated parameter": {"code_verifier": ["x" * 43, "y" * 43]},
}


@pytest.mark.parametrize("mismatch", MISMATCHES)
def test_a_code_is_good_for_its_own_request_alone(mismatch: str, program: Program, code: str) -> None:
    answer = program.exchange(code, **MISMATCHES[mismatch])
    assert answer.status in (400, 401), answer
    assert "error" in answer.body
    assert not AgentAccessToken.objects.exists()


def test_a_form_in_another_encoding_is_refused(program: Program, code: str) -> None:
    for path in ("/oauth/token", "/oauth/revoke"):
        form = "application/x-www-form-urlencoded; charset=utf-16"
        answer = Client().generic("POST", path, f"client_id={program.client_id}&token={code}", content_type=form)
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")


def test_a_code_of_another_client(console: Console, program: Program, code: str) -> None:
    """Mix-up and injection: whoever gets at a code of one client cannot take it up with another."""
    other = Program()
    other.register(client_name="Other")
    assert program.exchange(code, client_id=other.client_id).body["error"] == "invalid_grant"
    assert program.exchange(code).body["error"] == "invalid_grant"
    assert not AgentAccessToken.objects.exists()


def test_a_code_that_was_tried_with_a_wrong_verifier_is_spent(program: Program, code: str) -> None:
    program.exchange(code, code_verifier="x" * 43)
    assert program.exchange(code).body["error"] == "invalid_grant"
    assert not AgentAccessToken.objects.exists()


def test_a_code_lives_a_minute(program: Program, code: str) -> None:
    AuthorizationCode.objects.update(expires=timezone.now())
    assert program.exchange(code).body["error"] == "invalid_grant"


def test_what_ends_between_consent_and_use(console: Console, program: Program, code: str) -> None:
    Person.objects.filter(pk=console.person.pk).update(is_active=False)
    assert program.exchange(code).body["error"] == "invalid_grant"


# --- the request


WRONG_REQUESTS: dict[str, tuple[dict[str, Any], str]] = {
    "no challenge": ({"code_challenge": None, "code_challenge_method": None}, "invalid_request"),
    "plain": ({"code_challenge_method": "plain"}, "invalid_request"),
    "no method, which would mean plain": ({"code_challenge_method": None}, "invalid_request"),
    "a challenge that is none": ({"code_challenge": "short"}, "invalid_request"),
    "the implicit grant": ({"response_type": "token"}, "unsupported_response_type"),
    "a hybrid one": ({"response_type": "code token"}, "unauthorized_client"),
    "an unknown scope": ({"scope": "read everything"}, "invalid_scope"),
    "another resource": ({"resource": "https://other.example/mcp"}, "invalid_target"),
    "a resource that begins alike": ({"resource": "http://testserver/mcp.evil"}, "invalid_target"),
    "a resource with a user": ({"resource": "http://testserver@evil.example/mcp"}, "invalid_target"),
    "one resource too many": ({"resource": [AUDIENCE, "https://other.example/"]}, "invalid_target"),
}


@pytest.mark.parametrize("wrong", WRONG_REQUESTS)
def test_a_wrong_request_is_told_to_its_agent(wrong: str, console: Console, program: Program) -> None:
    changed, error = WRONG_REQUESTS[wrong]
    response = console.client.get(program.address(**changed))
    assert response.status_code == 302, response.content[-2000:]
    assert response.headers["Location"].startswith(f"{program.redirect_uri}?")
    told = dict(item.split("=", 1) for item in urlsplit(response.headers["Location"]).query.split("&"))
    assert told["error"] == error
    assert (told["state"], told["iss"]) == (program.state, "http%3A%2F%2Ftestserver")
    assert not AgentGrant.objects.exists()


@pytest.mark.parametrize(
    "changed",
    [
        {"client_id": "unknown"},
        {"client_id": None},
        {"redirect_uri": "https://evil.example/callback"},
        {"redirect_uri": "http://127.0.0.1:53682/callback/.."},
        {"redirect_uri": "http://127.0.0.1:53682/callback?x=1"},
        {"redirect_uri": "http://127.0.0.1:53682/callback#x"},
        {"redirect_uri": "http://127.0.0.1:99999/callback"},
        {"redirect_uri": "http://localhost:53682/callback"},
        {"redirect_uri": "http://evil@127.0.0.1/callback"},
        {"redirect_uri": "http://127.0.0.1.evil.example/callback"},
        {"redirect_uri": "javascript:alert(1)"},
        {"redirect_uri": ["http://127.0.0.1:53682/callback", "https://evil.example/"]},
    ],
    ids=str,
)
def test_nobody_is_sent_where_nothing_was_registered(changed: Any, console: Console, program: Program) -> None:
    response = console.client.get(program.address(**changed))
    assert response.status_code == 400
    assert "Location" not in response.headers
    assert b"cannot be connected" in response.content
    assert b"evil.example" not in response.content


def test_any_port_of_the_own_machine_and_no_other_difference(console: Console, program: Program) -> None:
    program.redirect_uri = "http://127.0.0.1:61000/callback"
    told = answer_in(decide(console, program.address()))
    assert program.exchange(told["code"]).status == 200


def test_no_open_redirector(console: Console) -> None:
    """A wrong request of a client that registered itself leads its person nowhere by itself."""
    program = Program(redirect_uri="https://evil.example/callback")
    assert program.register().status == 201
    response = console.client.get(program.address(scope="everything"))
    assert response.status_code == 400
    assert b'href="https://evil.example/callback?error=invalid_scope' in response.content
    AgentClient.objects.update(registration_source="manual")
    assert console.client.get(program.address(scope="everything")).status_code == 302


# --- tokens


def test_one_known_audience_also_when_no_resource_is_named(console: Console, program: Program) -> None:
    told = answer_in(decide(console, program.address(resource=None)))
    tokens = program.exchange(told["code"], resource=None).body
    assert [token.resource for token in AgentAccessToken.objects.all()] == [[AUDIENCE]]
    assert is_good(tokens["access_token"])
    program.refresh(tokens["refresh_token"])
    assert [token.resource for token in AgentAccessToken.objects.all()] == [[AUDIENCE]]
    assert {tuple(token.resource) for token in AgentRefreshToken.objects.all()} == {(AUDIENCE,)}


def test_refreshing(console: Console) -> None:
    program, first = sign_in(console)
    answer = program.refresh(first["refresh_token"])
    assert answer.status == 200
    assert answer.body["refresh_token"] != first["refresh_token"]
    assert not is_good(first["access_token"])
    assert identify(answer.body["access_token"]).permissions == permissions_of(["read", "change"])


def test_the_reuse_of_a_refresh_token_ends_the_family(console: Console) -> None:
    program, first = sign_in(console)
    second = program.refresh(first["refresh_token"]).body
    third = program.refresh(second["refresh_token"]).body
    assert program.refresh(first["refresh_token"]).body["error"] == "invalid_grant"
    assert not is_good(third["access_token"])
    assert program.refresh(third["refresh_token"]).body["error"] == "invalid_grant"
    assert AgentGrant.objects.get().ended_for == "refresh-reused"


def test_the_same_pair_for_half_a_minute(console: Console) -> None:
    program, first = sign_in(console)
    second = program.refresh(first["refresh_token"]).body
    again = program.refresh(first["refresh_token"]).body
    assert (again["access_token"], again["refresh_token"]) == (second["access_token"], second["refresh_token"])
    assert (again["scope"], again["expires_in"] <= second["expires_in"]) == (second["scope"], True)
    assert identify(again["access_token"]).permissions == permissions_of(["read", "change"])
    AgentRefreshToken.objects.filter(revoked__isnull=False).update(revoked=timezone.now() - timedelta(seconds=31))
    assert program.refresh(first["refresh_token"]).body["error"] == "invalid_grant"
    assert not is_good(second["access_token"])
    assert AgentGrant.objects.get().ended_for == "refresh-reused"


def test_the_same_pair_is_for_the_same_client_and_host(console: Console) -> None:
    program, first = sign_in(console)
    second = program.refresh(first["refresh_token"], scope="read").body
    other = Program()
    other.register()
    assert other.refresh(first["refresh_token"]).body["error"] == "invalid_grant"
    assert program.refresh(first["refresh_token"], HTTP_HOST="gateway.example.test").status == 400
    assert program.refresh(first["refresh_token"], scope="read change").body["error"] == "invalid_scope"
    assert program.refresh(first["refresh_token"]).body["scope"] == "read"
    assert is_good(second["access_token"])


def test_the_sweep_forgets_what_the_same_pair_is_made_of(console: Console) -> None:
    program, first = sign_in(console)
    program.refresh(first["refresh_token"])
    grants.sweep()
    assert AgentRefreshToken.objects.exclude(successor_salt="").exists()
    AgentRefreshToken.objects.filter(revoked__isnull=False).update(revoked=timezone.now() - timedelta(seconds=61))
    grants.sweep()
    assert not AgentRefreshToken.objects.exclude(successor_salt="").exists()


def test_a_refresh_never_widens(console: Console) -> None:
    program, tokens = sign_in(console)
    wider = program.refresh(tokens["refresh_token"], scope="read change delete")
    assert wider.body["error"] == "invalid_scope"
    narrow = program.refresh(tokens["refresh_token"], scope="read").body
    assert identify(narrow["access_token"]).permissions == permissions_of(["read"])
    assert program.refresh(narrow["refresh_token"], scope="read change").body["error"] == "invalid_scope"
    assert program.refresh(narrow["refresh_token"]).body["scope"] == "read"


@pytest.mark.parametrize(
    "changed",
    [{"resource": "https://other.example/mcp"}, {"HTTP_HOST": "gateway.example.test"}, {"client_id": "unknown"}],
    ids=str,
)
def test_a_refresh_for_somebody_else(changed: Any, console: Console) -> None:
    program, tokens = sign_in(console)
    assert program.refresh(tokens["refresh_token"], **changed).status in (400, 401)
    assert program.refresh(tokens["refresh_token"]).status == 200


def test_a_refresh_by_another_client(console: Console) -> None:
    _, tokens = sign_in(console)
    other = Program()
    other.register()
    assert other.refresh(tokens["refresh_token"]).body["error"] == "invalid_grant"


def test_a_refresh_token_is_no_access_token_and_lives_thirty_days(console: Console) -> None:
    program, tokens = sign_in(console)
    assert not is_good(tokens["refresh_token"])
    assert AgentGrant.objects.get().expires_at - timezone.now() > timedelta(days=29)
    AgentGrant.objects.update(expires_at=timezone.now())
    assert program.refresh(tokens["refresh_token"]).body["error"] == "invalid_grant"


def test_parameters_in_the_address_are_refused(console: Console) -> None:
    program, tokens = sign_in(console)
    answer = program.ask(
        f"/oauth/token?refresh_token={tokens['refresh_token']}", grant_type="refresh_token", client_id=program.client_id
    )
    assert answer.body["error"] == "invalid_request"


@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
def test_revoking(kind: str, console: Console) -> None:
    program, tokens = sign_in(console)
    other = Program()
    other.register()
    assert other.revoke(tokens[kind]).status == 200  # and nothing is told of it
    assert is_good(tokens["access_token"])
    assert program.revoke(tokens[kind]).status == 200
    assert not is_good(tokens["access_token"])
    assert program.refresh(tokens["refresh_token"]).body["error"] == "invalid_grant"
    assert AgentGrant.objects.get().ended_for == "agent"
    assert program.revoke("unknown").status == 200


def test_a_new_password_ends_the_agents(console: Console) -> None:
    program, tokens = sign_in(console)
    console.submit(
        "/console/account/password", current=PASSWORD, new="another long phrase", again="another long phrase"
    )
    assert not is_good(tokens["access_token"])
    assert program.refresh(tokens["refresh_token"]).body["error"] == "invalid_grant"
    grants.sweep()
    assert AgentGrant.objects.get().ended_for == "person-changed"


# --- audiences: an agent's token is good at its endpoint alone, and nothing else is good there


@pytest.mark.parametrize(
    "path", ["/api/me", "/api/ad/users", "/ad/organization-units/x/accounts/plan", "/rest/me", "/rest/agents/own"]
)
def test_an_agents_token_anywhere_else(path: str, console: Console) -> None:
    _, tokens = sign_in(console)
    for value in (tokens["access_token"], tokens["refresh_token"]):
        answer = send(Client(), "GET", path, Authorization=f"Bearer {value}")
        assert (answer.status, answer.code) == (401, "Auth.Unauthorized")
        answer = send(Client(), "GET", path, **{"X-API-Key": value})
        assert answer.status == 401


def test_an_agents_token_opens_no_page(console: Console) -> None:
    _, tokens = sign_in(console)
    for path in ("/console/", "/admin/", "/console/connect-agent"):
        response = Client().get(path, headers={"Authorization": f"Bearer {tokens['access_token']}"})
        assert response.status_code == 302
        assert "/sign-in" in response.headers["Location"] or "/login" in response.headers["Location"]


def test_nothing_else_is_good_for_an_agent(console: Console, corp: DirectoryConnection) -> None:
    platform = console.post("/rest/session/access-token").body["accessToken"]
    key = make_integration(corp, owner=console.person).value
    for value in (platform, key):
        assert not is_good(value)
    assert make_agent(corp).token not in (platform, key)
