"""Changing a password with the present one: what the directory refuses, and how often it may be asked."""

import json
from uuid import UUID

import ldap
import pytest

from active_directory import Client, error_from
from audit.models import OperationRecord
from core.call import SupervisionLevel
from core.configuration_sections import RateLimit
from core.redis.clients import QuickRedis, RedisUnavailable
from directory.models import DirectoryConnection
from lab.directory import PASSWORD, Directory
from tests.support.cast import Console, Integration, make_integration, make_person
from tests.support.configuration import Configure

NEW = "Engine-Number-2"


@pytest.fixture
def ada(directory: Directory, organizational_unit: str) -> UUID:
    """She may change her password now: without this the minimum age of a day stands in the way."""
    guid = directory.add_user("Ada Lovelace", parent=organizational_unit, password=PASSWORD)
    directory.modify(guid, pwdLastSet="0")
    return guid


def path(guid: UUID) -> str:
    return f"/api/ad/users/{guid}/change-password"


def change(current: str = PASSWORD, new: str = NEW) -> dict[str, str]:
    return {"currentPassword": current, "newPassword": new}


def test_it_works(integration: Integration, directory: Directory, ada: UUID) -> None:
    answer = integration.post(path(ada), change())
    assert (answer.status, answer.body) == (204, b"")
    assert directory.can_sign_in(ada, NEW)
    record = OperationRecord.objects.get(operation="users.change-password")
    assert record.outcome == "succeeded"
    assert record.changes == [{"attribute": "unicodePwd", "before": ["<secret>"], "after": ["<secret>"]}]


def test_a_wrong_current_password(integration: Integration, directory: Directory, ada: UUID) -> None:
    answer = integration.post(path(ada), change(current="Not-Hers-1"))
    assert (answer.status, answer.code) == (422, "AD.Password.CurrentWrong")
    assert directory.text(ada, "badPwdCount") == "1"
    assert OperationRecord.objects.get(operation="users.change-password").code == "AD.Password.CurrentWrong"


@pytest.mark.parametrize("new", ["short", "abcdefghij", PASSWORD])
def test_the_policy_refuses(integration: Integration, directory: Directory, ada: UUID, new: str) -> None:
    """Too short, too simple, or the one it has already: only the directory knows the last."""
    answer = integration.post(path(ada), change(new=new))
    assert (answer.status, answer.code) == (422, "AD.Password.PolicyViolation")
    assert answer.body["policy"]["historyLength"] == 24
    assert new not in json.dumps(answer.body)
    assert directory.text(ada, "badPwdCount") in (None, "0")


def test_the_minimum_age(integration: Integration, directory: Directory, ada: UUID) -> None:
    directory.modify(ada, pwdLastSet="-1")
    told = integration.post(f"{path(ada)}?dryRun=true", change())
    assert any("minimum age" in warning for warning in told.body["warnings"])
    answer = integration.post(path(ada), change())
    assert (answer.status, answer.code) == (422, "AD.Password.PolicyViolation")
    assert answer.body["policy"]["minAgeSeconds"] == 86_400
    assert "minimum age" in answer.body["detail"]
    assert not any("password" in item["pointer"].lower() for item in answer.body.get("errors", []))
    assert directory.can_sign_in(ada, PASSWORD)


def test_a_disabled_or_expired_account_may(integration: Integration, directory: Directory, ada: UUID) -> None:
    directory.modify(ada, userAccountControl="514", accountExpires="1")
    assert integration.post(path(ada), change()).status == 204
    directory.modify(ada, userAccountControl="512", accountExpires="0")
    assert directory.can_sign_in(ada, NEW)


def test_one_that_is_locked_out_may_not(integration: Integration, directory: Directory, ada: UUID) -> None:
    directory.modify(ada, pwdLastSet="-1")
    directory.lock_out(ada)
    answer = integration.post(path(ada), change())
    assert (answer.status, answer.code) == (422, "AD.Directory.Rejected")
    assert "locked out" in answer.body["detail"]
    reset = f"/api/ad/users/{ada}/reset-password"
    told = integration.post(f"{reset}?dryRun=true", {"newPassword": NEW}).body["warnings"]
    assert "A new password does not unlock it." in told
    assert integration.post(reset, {"newPassword": NEW}).status == 200
    assert not directory.can_sign_in(ada, NEW)
    assert integration.post(reset, {"newPassword": NEW, "unlock": True}).status == 200
    assert directory.can_sign_in(ada, NEW)


def test_risk_and_permission(connection: DirectoryConnection, directory: Directory, ada: UUID) -> None:
    may = ["directory.change_password", "directory.read_object"]
    careful = make_integration(connection, may=may, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)
    told = careful.post(f"{path(ada)}?dryRun=true", change()).body
    assert (told["risk"], told["wouldQueue"]) == ("ordinary", False)
    assert careful.post(path(ada), change()).status == 204
    other = make_integration(connection, may=["directory.reset_password"])
    assert other.post(path(ada), change()).status == 403


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"newPassword": NEW}, "#/currentPassword"),
        ({"currentPassword": PASSWORD}, "#/newPassword"),
        (change(current=""), "#/currentPassword"),
        (change(new=""), "#/newPassword"),
        (change(new="Aa1-" * 64 + "x"), "#/newPassword"),
        ({**change(), "unlock": True}, "#/unlock"),
    ],
)
def test_bad_input_is_named(integration: Integration, ada: UUID, body: object, pointer: str) -> None:
    answer = integration.post(path(ada), body)
    assert answer.status == 400
    assert [item["pointer"] for item in answer.body["errors"]] == [pointer]


@pytest.mark.usefixtures("limited")
class TestTheLimit:
    """Three in five minutes for an account, whoever asks."""

    def test_a_dry_run_tries_nothing(self, integration: Integration, directory: Directory, ada: UUID) -> None:
        for _ in range(4):
            assert integration.post(f"{path(ada)}?dryRun=true", change()).status == 200
        assert integration.post(path(ada), change()).status == 204

    def test_it_holds_over_all_surfaces(
        self, connection: DirectoryConnection, integration: Integration, directory: Directory, ada: UUID
    ) -> None:
        console = Console(make_person(may=["directory.change_password"]))
        wrong = change(current="Not-Hers-1")
        first = integration.post(path(ada), wrong)
        assert first.status == 422
        assert '"PasswordChange";r=2;t=300' in first.headers["RateLimit"]
        assert console.post(f"/rest/ad/users/{str(ada).upper()}/change-password", wrong).status == 422
        assert make_integration(connection).post(path(ada), wrong).status == 422
        for answer in (
            integration.post(path(ada), change()),
            console.post(f"/rest/ad/users/{ada}/change-password", change()),
        ):
            assert (answer.status, answer.code) == (429, "RateLimit.Exceeded")
            assert 1 <= int(answer.headers["Retry-After"]) <= 300
        assert directory.text(ada, "badPwdCount") == "3", "the directory hears of no further try"
        assert directory.can_sign_in(ada, PASSWORD) is False  # it must be changed first; what counts is the password:
        directory.modify(ada, pwdLastSet="-1")
        assert directory.can_sign_in(ada, PASSWORD)

    def test_who_may_not_uses_nothing_up(
        self, connection: DirectoryConnection, directory: Directory, organizational_unit: str, ada: UUID
    ) -> None:
        elsewhere = directory.guid(directory.add_unit("Elsewhere", parent=organizational_unit))
        confined = make_integration(connection, scopes=[elsewhere])
        unable = make_integration(connection, may=["directory.read_object"])
        for _ in range(3):
            assert confined.post(path(ada), change()).status == 403
            assert unable.post(path(ada), change()).status == 403
        assert make_integration(connection).post(path(ada), change()).status == 204

    def test_another_account_has_its_own(
        self, integration: Integration, directory: Directory, organizational_unit: str, ada: UUID
    ) -> None:
        for _ in range(4):
            last = integration.post(path(ada), change(current="Not-Hers-1"))
        assert last.status == 429
        other = directory.add_user(parent=organizational_unit, password=PASSWORD)
        directory.modify(other, pwdLastSet="0")
        assert integration.post(path(other), change()).status == 204

    def test_resets_are_counted_for_the_address(
        self, configure: Configure, integration: Integration, directory: Directory, organizational_unit: str
    ) -> None:
        configure("RateLimiting", PasswordReset=RateLimit(Requests=2, WindowSeconds=60))
        users = [directory.add_user(parent=organizational_unit) for _ in range(3)]
        answers = [integration.post(f"/api/ad/users/{guid}/reset-password", {"generate": True}) for guid in users]
        assert [answer.status for answer in answers] == [200, 200, 429]

    def test_without_counters_passwords_wait(
        self, integration: Integration, directory: Directory, ada: UUID, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def unavailable(*_: object) -> None:
            raise RedisUnavailable

        monkeypatch.setattr(QuickRedis, "run", unavailable)
        for action, body in (("change-password", change()), ("reset-password", {"generate": True})):
            answer = integration.post(f"/api/ad/users/{ada}/{action}", body)
            assert (answer.status, answer.code) == (503, "Service.Unavailable")
        assert integration.get(f"/api/ad/users/{ada}").status == 200
        directory.modify(ada, pwdLastSet="-1")
        assert directory.can_sign_in(ada, PASSWORD)


ATTRIBUTE_ERROR = "AtrErr: DSID-03191083, #1:\n\t0: 0000052D: DSID-03191083, problem 1005, Att 9005a (unicodePwd)"
SERVICE_ERROR = "SvcErr: DSID-031A12D2, problem 5003 (WILL_NOT_PERFORM), data 0"


@pytest.mark.parametrize(
    ("result", "info", "code"),
    [
        (19, f"00000056: {ATTRIBUTE_ERROR}", "AD.Password.CurrentWrong"),
        (19, f"0000052D: {ATTRIBUTE_ERROR}", "AD.Password.PolicyViolation"),
        (53, f"0000052D: {SERVICE_ERROR}", "AD.Password.PolicyViolation"),
        (53, f"0000001F: {SERVICE_ERROR}", "AD.Directory.Rejected"),
        (50, "00000005: SecErr: DSID-031A1256, problem 4003 (INSUFF_ACCESS_RIGHTS), data 0", "AD.Directory.Denied"),
    ],
)
def test_what_windows_says(
    integration: Integration, ada: UUID, monkeypatch: pytest.MonkeyPatch, result: int, info: str, code: str
) -> None:
    kinds = {19: ldap.CONSTRAINT_VIOLATION, 50: ldap.INSUFFICIENT_ACCESS, 53: ldap.UNWILLING_TO_PERFORM}

    def refuse(*_: object) -> None:
        raise error_from(kinds[result]({"result": result, "desc": "refused", "info": info}), writing=True)

    monkeypatch.setattr(Client, "write", refuse)
    answer = integration.post(path(ada), change())
    assert answer.code == code
    assert "DSID" not in json.dumps(answer.body)
    assert ("policy" in answer.body) is (code == "AD.Password.PolicyViolation")
