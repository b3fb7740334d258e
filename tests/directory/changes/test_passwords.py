"""Resetting a password: given or generated, with the other parts of one atomic change, and each refusal."""

import json
import logging
import string
from io import StringIO
from typing import Any
from uuid import UUID

import pytest

from active_directory import Client
from audit.models import OperationRecord
from directory.models import DirectoryConnection
from gateway.models import IdempotencyRecord
from lab.directory import PASSWORD, Directory, random_name
from lab.domain import Domain
from lab.proxy import FaultyProxy
from tests.support.cast import Console, Integration, make_connection, make_integration, make_person
from tests.support.mishaps import lose_the_answer

NEW = "Engine-Number-2"


@pytest.fixture
def ada(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_user("Ada Lovelace", parent=organizational_unit, password=PASSWORD, displayName="Ada Lovelace")


def path(guid: UUID) -> str:
    return f"/api/ad/users/{guid}/reset-password"


def record() -> OperationRecord:
    return OperationRecord.objects.get(operation="users.reset-password")


def test_it_works(integration: Integration, directory: Directory, ada: UUID) -> None:
    answer = integration.post(path(ada), {"newPassword": NEW})
    assert (answer.status, answer.body) == (200, {"generatedPassword": None})
    assert directory.can_sign_in(ada, NEW)
    done = record()
    assert (done.outcome, done.target_id, done.reversible) == ("succeeded", ada, "none")
    assert done.changes == [{"attribute": "unicodePwd", "before": ["<secret>"], "after": ["<secret>"]}]


def test_the_account_is_read_once(integration: Integration, ada: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    """The groups that the domain controller computes, by which it may be protected, come in the same read."""
    read, asked = Client.read, list[tuple[str, ...]]()

    def reading(client: Client, ref: Any, attributes: Any = None, **named: Any) -> Any:
        if ref == ada:
            asked.append(tuple(attributes))
        return read(client, ref, attributes, **named)

    monkeypatch.setattr(Client, "read", reading)
    assert integration.post(path(ada), {"newPassword": NEW}).status == 200
    assert len(asked) == 1
    assert {"memberOf", "tokenGroups"} <= set(asked[0])


def test_a_generated_one(integration: Integration, directory: Directory, ada: UUID) -> None:
    made = {integration.post(path(ada), {"generate": True}).body["generatedPassword"] for _ in range(3)}
    assert len(made) == 3
    directory.modify(ada, pwdLastSet="-1")
    assert sum(directory.can_sign_in(ada, password) for password in made) >= 1
    for password in made:
        assert len(password) >= 20
        assert not set(password) & set("0O1lIo|'\"` ")
        for kind in (string.ascii_uppercase, string.ascii_lowercase, string.digits, string.punctuation):
            assert set(password) & set(kind)


def test_one_atomic_change(integration: Integration, directory: Directory, ada: UUID) -> None:
    directory.modify(ada, lockoutTime="1")
    answer = integration.post(path(ada), {"newPassword": NEW, "mustChange": True, "unlock": True})
    assert answer.status == 200
    assert directory.text(ada, "pwdLastSet") == "0"
    assert directory.text(ada, "lockoutTime") == "0"
    assert [change["attribute"] for change in record().changes] == ["unicodePwd", "pwdLastSet", "lockoutTime"]
    # What is asked for already stays, though a new password by itself sets pwdLastSet to the present time.
    integration.post(path(ada), {"generate": True, "mustChange": True})
    assert directory.text(ada, "pwdLastSet") == "0"
    refused = integration.post(path(ada), {"newPassword": "short", "mustChange": False, "unlock": True})
    assert refused.status == 422
    assert directory.text(ada, "pwdLastSet") == "0"


def test_without_must_change_it_has_not_to_be_changed(
    integration: Integration, directory: Directory, ada: UUID
) -> None:
    directory.modify(ada, pwdLastSet="0")
    integration.post(path(ada), {"newPassword": NEW})
    assert directory.text(ada, "pwdLastSet") != "0"
    assert directory.can_sign_in(ada, NEW)


def test_the_dry_run(integration: Integration, directory: Directory, ada: UUID) -> None:
    directory.modify(ada, userAccountControl="514", pwdLastSet="0")
    answer = integration.post(f"{path(ada)}?dryRun=true", {"generate": True})
    assert answer.status == 200
    assert (answer.body["risk"], answer.body["wouldQueue"]) == ("security", False)
    assert answer.body["changes"] == [{"attribute": "unicodePwd", "before": ["<secret>"], "after": ["<secret>"]}]
    told = " ".join(answer.body["warnings"])
    assert "for up to an hour" in told
    assert "disabled" in told
    assert "no longer has to" in told
    assert "generatedPassword" not in answer.body
    assert not OperationRecord.objects.exists()
    directory.modify(ada, userAccountControl="512", pwdLastSet="-1")
    assert directory.can_sign_in(ada, PASSWORD)


def test_the_dry_run_foresees_what_it_can(integration: Integration, ada: UUID) -> None:
    refused = integration.post(f"{path(ada)}?dryRun=true", {"newPassword": "short"})
    assert (refused.status, refused.code) == (422, "AD.Password.PolicyViolation")
    told = integration.post(f"{path(ada)}?dryRun=true", {"newPassword": "X1!lovelace"}).body["warnings"]
    assert any("account's names" in warning for warning in told)


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({}, {"#/newPassword", "#/generate"}),
        ({"newPassword": NEW, "generate": True}, {"#/newPassword", "#/generate"}),
        ({"generate": False}, {"#/newPassword", "#/generate"}),
        ({"newPassword": None}, {"#/newPassword", "#/generate"}),
        ({"newPassword": ""}, {"#/newPassword"}),
        ({"newPassword": "Aa1-" * 64 + "x"}, {"#/newPassword"}),
        ({"newPassword": "\N{SLICE OF PIZZA}" * 128 + "x"}, {"#/newPassword"}),
        ({"newPassword": 5}, {"#/newPassword"}),
        ({"newPassword": NEW, "mustChange": "yes"}, {"#/mustChange"}),
    ],
)
def test_bad_input_is_named(
    integration: Integration, directory: Directory, ada: UUID, body: object, pointers: set[str]
) -> None:
    answer = integration.post(path(ada), body)
    assert (answer.status, answer.code) == (400, "Request.Invalid")
    assert {item["pointer"] for item in answer.body["errors"]} == pointers
    assert directory.can_sign_in(ada, PASSWORD)


def test_256_characters_are_not_too_many(integration: Integration, directory: Directory, ada: UUID) -> None:
    longest = "Aa1-" * 64
    assert integration.post(path(ada), {"newPassword": longest}).status == 200
    assert directory.can_sign_in(ada, longest)


@pytest.mark.parametrize("password", ['Quote"d \\1', "Straße-Ünïx-7", " Spaces-1 ", "Snow-☃-Man-1"])
def test_characters_are_kept_as_they_are(
    integration: Integration, directory: Directory, ada: UUID, password: str
) -> None:
    assert integration.post(path(ada), {"newPassword": password}).status == 200
    assert directory.can_sign_in(ada, password)


def test_the_policy_is_told(integration: Integration, directory: Directory, ada: UUID) -> None:
    answer = integration.post(path(ada), {"newPassword": "abcdefgh"})
    assert (answer.status, answer.code) == (422, "AD.Password.PolicyViolation")
    assert answer.body["policy"]["source"] == directory.base_dn
    assert (answer.body["policy"]["minLength"], answer.body["policy"]["complexity"]) == (7, True)
    assert answer.body["errors"][0]["pointer"] == "#/newPassword"
    assert "abcdefgh" not in json.dumps(answer.body)
    assert directory.can_sign_in(ada, PASSWORD)


def test_who_has_no_password_here(integration: Integration, directory: Directory, organizational_unit: str) -> None:
    contact = directory.add(
        f"CN={random_name('contact')},{organizational_unit}", {"objectClass": "contact", "sn": "Lovelace"}
    )
    others = [directory.add_group(parent=organizational_unit), directory.add_computer(parent=organizational_unit)]
    for other in (contact, *others):
        answer = integration.post(path(other), {"generate": True})
        assert (answer.status, answer.code) == (404, "AD.Object.NotFound")


def test_permissions(connection: DirectoryConnection, directory: Directory, ada: UUID) -> None:
    may_reset = make_integration(connection, may=["directory.reset_password"])
    assert may_reset.post(path(ada), {"newPassword": NEW, "unlock": True}).code == "Auth.Forbidden"
    assert directory.can_sign_in(ada, PASSWORD)
    assert may_reset.post(path(ada), {"newPassword": NEW}).status == 200
    may_update = make_integration(connection, may=["directory.update_user", "directory.change_password"])
    assert may_update.post(path(ada), {"newPassword": NEW}).status == 403


def test_protected_accounts_ask_for_more(connection: DirectoryConnection, directory: Directory, ada: UUID) -> None:
    directory.add_values(f"CN=Backup Operators,CN=Builtin,{directory.base_dn}", member=directory.dn(ada))
    few = make_integration(connection, may=["directory.reset_password"])
    krbtgt = directory.guid(f"CN=krbtgt,CN=Users,{directory.base_dn}")
    for guid in (ada, krbtgt):
        assert few.post(path(guid), {"generate": True}).code == "Auth.Forbidden"
    assert directory.can_sign_in(ada, PASSWORD)
    enough = make_integration(connection, may=["directory.reset_password", "directory.manage_protected"])
    assert enough.post(path(ada), {"newPassword": NEW}).status == 200


def test_if_match(integration: Integration, directory: Directory, ada: UUID) -> None:
    version = integration.get(f"/api/ad/users/{ada}").body["version"]
    assert integration.post(path(ada), {"newPassword": NEW}, If_Match='"other"').status == 412
    assert integration.post(path(ada), {"newPassword": NEW}, If_Match=f'"{version}"').status == 200
    assert integration.post(path(ada), {"newPassword": NEW}, If_Match=f'"{version}"').status == 412


def test_a_replay_does_not_tell_it_again(integration: Integration, directory: Directory, ada: UUID) -> None:
    first = integration.post(path(ada), {"generate": True}, Idempotency_Key="one")
    again = integration.post(path(ada), {"generate": True}, Idempotency_Key="one")
    assert again.headers["Idempotency-Replayed"] == "true"
    assert (again.status, again.body) == (200, {"generatedPassword": None})
    assert directory.can_sign_in(ada, first.body["generatedPassword"])
    assert first.body["generatedPassword"] not in IdempotencyRecord.objects.get().body


def test_a_person_in_the_console(connection: DirectoryConnection, directory: Directory, ada: UUID) -> None:
    console = Console(make_person(may=["directory.reset_password"]))
    answer = console.post(f"/rest/ad/users/{ada}/reset-password", {"generate": True})
    assert answer.status == 200
    assert directory.can_sign_in(ada, answer.body["generatedPassword"])


def test_a_connection_without_tls(domain: Domain, directory: Directory, ada: UUID, db: None) -> None:
    plain = make_integration(make_connection(domain, url=domain.url.replace("ldaps:", "ldap:")))
    answer = plain.post(path(ada), {"newPassword": NEW})
    assert (answer.status, answer.code) == (503, "AD.Directory.Unavailable")
    assert "TLS" in answer.body["detail"]
    assert directory.can_sign_in(ada, PASSWORD)


@pytest.mark.parametrize(
    "body", [{"generate": True}, {"newPassword": NEW, "mustChange": True, "unlock": True}, {"newPassword": PASSWORD}]
)
def test_an_answer_that_was_lost_is_found_out(
    through_proxy: Integration,
    directory: Directory,
    directory_proxy: FaultyProxy,
    ada: UUID,
    monkeypatch: pytest.MonkeyPatch,
    body: dict[str, Any],
) -> None:
    """What was a 0 already stays one, and the new password may be the old one: the password's version tells."""
    directory.modify(ada, pwdLastSet="0", lockoutTime="0")
    lose_the_answer(monkeypatch, directory_proxy)
    answer = through_proxy.post(path(ada), body)
    assert answer.status == 200
    assert record().outcome == "succeeded"
    directory.modify(ada, pwdLastSet="-1")
    assert directory.can_sign_in(ada, body.get("newPassword") or answer.body["generatedPassword"])


def test_nothing_is_said_of_passwords_in_logs(
    integration: Integration, ada: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in the lines of requests, nor in the traceback of what nobody foresaw."""
    lines = StringIO()
    (stdout,) = [handler for handler in logging.getLogger().handlers if handler.name == "stdout"]
    monkeypatch.setattr(stdout, "stream", lines)
    generated = integration.post(path(ada), {"generate": True}, Idempotency_Key="one").body["generatedPassword"]
    integration.post(path(ada), {"newPassword": NEW, "unknown": 1})
    integration.post(path(ada), {"newPassword": NEW + "x" * 300})

    def fail(*_: object) -> None:
        raise RuntimeError("out of the blue")

    monkeypatch.setattr(Client, "write", fail)
    integration.client.raise_request_exception = False
    assert integration.post(path(ada), {"newPassword": NEW}).status == 500
    logged = lines.getvalue()
    assert "out of the blue" in logged
    assert NEW not in logged
    assert generated not in logged
