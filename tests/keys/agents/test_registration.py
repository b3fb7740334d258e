"""How clients come to be known and are forgotten, and what of the toolkit is not offered."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone
from pydantic import ValidationError

from audit.models import OperationRecord
from core.configuration_sections import AgentsSection
from directory.models import DirectoryConnection
from keys.agents import grants
from keys.models import Person
from keys.models.agents import AgentClient, AgentGrant
from tests.keys.agents.sign_in import Program, answer_in, decide, fields_of, sign_in
from tests.support.cast import Console, make_person, send
from tests.support.configuration import Configure

pytestmark = pytest.mark.django_db


def test_closed_registration(configure: Configure, program: Program) -> None:
    configure("Agents", Registration="closed")
    assert Program().register().status == 403
    assert "registration_endpoint" not in send(Client(), "GET", "/.well-known/oauth-authorization-server").body


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "plain http": ({"redirect_uris": ["http://agent.example/cb"]}, "invalid_redirect_uri"),
    "a private scheme": ({"redirect_uris": ["agent:/cb"]}, "invalid_redirect_uri"),
    "a fragment": ({"redirect_uris": ["https://agent.example/cb#x"]}, "invalid_redirect_uri"),
    "a user": ({"redirect_uris": ["https://a@agent.example/cb"]}, "invalid_redirect_uri"),
    "a wildcard": ({"redirect_uris": ["https://*.agent.example/cb"]}, "invalid_redirect_uri"),
    "a wildcard in the path": ({"redirect_uris": ["https://agent.example/*"]}, "invalid_redirect_uri"),
    "a wildcard on loopback": ({"redirect_uris": ["http://127.0.0.1/*"]}, "invalid_redirect_uri"),
    "a wildcard of an editor": ({"redirect_uris": ["cursor://*/callback"]}, "invalid_redirect_uri"),
    "an editor's user": ({"redirect_uris": ["cursor://a@b/callback"]}, "invalid_redirect_uri"),
    "an editor and no place": ({"redirect_uris": ["cursor:callback"]}, "invalid_redirect_uri"),
    "a script": ({"redirect_uris": ["javascript:alert(1)"]}, "invalid_redirect_uri"),
    "plain http beside others": (
        {"redirect_uris": ["https://agent.example/cb", "http://agent.example/cb"]},
        "invalid_redirect_uri",
    ),
    "a space": ({"redirect_uris": ["https://agent.example/cb https://evil.example/"]}, "invalid_redirect_uri"),
    "letters of another script": ({"redirect_uris": ["https://аgent.example/cb"]}, "invalid_redirect_uri"),
    "none": ({"redirect_uris": []}, "invalid_redirect_uri"),
    "too many": ({"redirect_uris": [f"https://agent.example/{n}" for n in range(11)]}, "invalid_redirect_uri"),
    "another grant": ({"grant_types": ["client_credentials"]}, "invalid_client_metadata"),
    "another response": ({"response_types": ["token"]}, "invalid_client_metadata"),
    "a long name": ({"client_name": "x" * 101}, "invalid_client_metadata"),
    "a name that reads otherwise": ({"client_name": "ab\u202ec"}, "invalid_client_metadata"),
    "a name that is none": ({"client_name": 7}, "invalid_client_metadata"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_registration_refused(what: str) -> None:
    metadata, error = REFUSED[what]
    answer = Program().register(**metadata)
    assert (answer.status, answer.body["error"]) == (400, error)
    assert not AgentClient.objects.exists()


EDITOR = "cursor://anysphere.cursor-mcp/oauth/callback"


def test_an_unknown_scheme_does_not_keep_the_others_out() -> None:
    """Programs name all that they ever use; the answer says what was kept (RFC 7591 section 3.2.1)."""
    given = ["unknown-editor://mcp/cb", EDITOR, "com.example:/cb", "https://agent.example/cb"]
    answer = Program().register(redirect_uris=given)
    assert (answer.status, answer.body["redirect_uris"]) == (201, [EDITOR, "https://agent.example/cb"])


def test_an_editor_gets_its_answer(console: Console) -> None:
    program = Program(redirect_uri=EDITOR)
    assert program.register().status == 201
    page = console.client.get(program.address())
    assert EDITOR.encode() in page.content
    assert "form-action 'self' cursor:;" in page.headers["Content-Security-Policy"]
    answer = decide(console, program.address())
    assert answer.headers["Location"].startswith(f"{EDITOR}?code=")
    assert program.exchange(answer_in(answer)["code"]).status == 200


def test_an_editor_that_is_not_named_any_more(console: Console, configure: Configure) -> None:
    program = Program(redirect_uri=EDITOR)
    assert program.register().status == 201
    configure("Agents", RedirectSchemes=())
    assert console.client.get(program.address()).status_code == 400
    assert "https, or http on 127.0.0.1" in Program(redirect_uri=EDITOR).register().body["error_description"]


@pytest.mark.parametrize("scheme", ["javascript", "https", "Cursor", "cursor:", ""])
def test_schemes_that_lead_to_no_program(scheme: str) -> None:
    with pytest.raises(ValidationError):
        AgentsSection(RedirectSchemes=(scheme,))


def test_registration_is_limited_per_address(limited: None, configure: Configure) -> None:
    configure("Agents", RegistrationsPerHour=2)
    assert [Program().register().status for _ in range(3)] == [201, 201, 429]
    refused = Program().register()
    assert int(refused.headers["Retry-After"]) > 0


def test_what_is_not_used_is_swept(console: Console, program: Program) -> None:
    used, _ = sign_in(console)
    old = timezone.now() - timedelta(hours=25)
    AgentClient.objects.update(created=old)
    fresh = Program()
    fresh.register()
    grants.sweep()
    kept = set(AgentClient.objects.values_list("client_id", flat=True))
    assert kept == {used.client_id, fresh.client_id}
    assert OperationRecord.objects.get(operation="agent-clients.delete").owner == "(gateway)"
    assert console.client.get(program.address()).status_code == 400


def test_a_consent_that_nobody_takes_up_is_swept(program: Program, code: str) -> None:
    AgentGrant.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    grants.sweep()
    assert AgentGrant.objects.get().ended_for == "never-taken-up"
    assert program.exchange(code).body["error"] == "invalid_grant"


@pytest.mark.parametrize("command", ["createapplication", "cleartokens", "clearcimdapplications"])
def test_the_toolkits_commands_are_not_offered(command: str) -> None:
    """They would change clients and tokens without a record."""
    with pytest.raises(CommandError, match="Unknown command"):
        call_command(command)


def test_the_toolkits_pages_are_not_offered(console: Console) -> None:
    Person.objects.filter(pk=console.person.pk).update(is_superuser=True, is_staff=True)
    for path in (
        "/o/applications/",
        "/o/authorize/",
        "/o/token/",
        "/admin/oauth2_provider/grant/",
        "/admin/keys/agentclient/",
    ):
        assert console.client.get(path).status_code == 404


def test_fields_of_the_form_are_read(console: Console, program: Program) -> None:
    assert set(fields_of(console.client.get(program.address()).content)) == {"seal", "directory"}


def test_somebody_who_may_nothing(corp: DirectoryConnection, program: Program) -> None:
    nobody = Console(make_person())
    page = nobody.client.get(program.address())
    assert b'value="allow"' not in page.content
    assert nobody.submit(program.address(), **fields_of(page.content), scope=["read"], decision="allow").status == 400
    assert not AgentGrant.objects.exists()
