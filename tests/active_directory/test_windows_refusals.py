"""What Windows refuses in other words than Samba, by fakes where python-ldap's connection would be."""

import socket
from typing import Any

import ldap
import pytest
from django.test import Client as Browser

import active_directory as layer
from active_directory import Add, BindResult, Client, Modification, Modify, ServerSettings
from active_directory.connections import connection
from active_directory.connections.connection import Connection
from lab.directory import Directory, random_name
from lab.domain import Domain
from tests.support.cast import Answer, make_connection, send

SETTINGS = ServerSettings(("ldaps://dc.test",), "DC=corp", "CN=gateway,DC=corp", "secret")
SECURITY_CONTEXT = "80090308: LdapErr: DSID-0C090439, comment: AcceptSecurityContext error, data {}, v4f7c"
SUB_CODES = {
    "525": BindResult.WRONG,
    "52e": BindResult.WRONG,
    "530": BindResult.NOT_ALLOWED_NOW,
    "531": BindResult.NOT_ALLOWED_NOW,
    "532": BindResult.PASSWORD_EXPIRED,
    "533": BindResult.DISABLED,
    "701": BindResult.EXPIRED,
    "773": BindResult.MUST_CHANGE,
    "775": BindResult.LOCKED,
    "57": BindResult.WRONG,  # one that nobody foresaw
}


def refused_bind(sub_code: str) -> ldap.INVALID_CREDENTIALS:
    return ldap.INVALID_CREDENTIALS(
        {"result": 49, "desc": "Invalid credentials", "info": SECURITY_CONTEXT.format(sub_code)}
    )


class WindowsDoor:
    """A connection on which nothing but binds is tried; without a password they succeed, as anybody's (RFC 4513)."""

    def __init__(self, sub_code: str) -> None:
        self.sub_code = sub_code
        self.asked: list[tuple[str, str]] = []
        self._quiet, self._other = socket.socketpair()

    def simple_bind(self, name: str, password: str) -> int:
        self.asked.append((name, password))
        return len(self.asked)

    def result3(self, message: int, **_: Any) -> None:
        if self.asked[message - 1][1]:
            raise refused_bind(self.sub_code)

    def fileno(self) -> int:
        return self._quiet.fileno()

    def unbind_ext_s(self) -> None:
        pass


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch) -> WindowsDoor:
    door = WindowsDoor("52e")
    monkeypatch.setattr(connection, "_prepare", lambda *_: door)
    return door


@pytest.mark.parametrize(("sub_code", "meaning"), SUB_CODES.items())
def test_why_a_bind_was_refused(door: WindowsDoor, sub_code: str, meaning: BindResult) -> None:
    door.sub_code = sub_code
    assert connection.authenticate(SETTINGS, SETTINGS.urls, "CN=Ada,DC=corp", "password") is meaning


def test_no_password_is_never_tried(door: WindowsDoor) -> None:
    assert connection.authenticate(SETTINGS, SETTINGS.urls, "CN=Ada,DC=corp", "") is BindResult.WRONG
    with pytest.raises(layer.BadCredentials):
        connection.sign_in("ldaps://dc.test", SETTINGS, 5, "", "")
    assert door.asked == []


def test_the_gateways_own_refused_bind_says_why(door: WindowsDoor) -> None:
    door.sub_code = "775"
    with pytest.raises(layer.BadCredentials, match="data 775"):
        connection.open_connection("ldaps://dc.test", SETTINGS, 5)


@pytest.mark.parametrize("sub_code", SUB_CODES)
def test_whoever_signs_in_hears_one_answer(
    monkeypatch: pytest.MonkeyPatch,
    db: None,
    domain: Domain,
    directory: Directory,
    organizational_unit: str,
    sub_code: str,
) -> None:
    """A reason would tell that the name exists, and most of them that the password was right."""
    corp = make_connection(domain)
    name = random_name("ada")
    directory.add_user(parent=organizational_unit, password="Correct-Horse-9", sAMAccountName=name)
    original = connection.sign_in

    def windows(url: str, settings: ServerSettings, seconds: float, bind_name: str, password: str) -> Connection:
        if bind_name == settings.bind_dn:
            return original(url, settings, seconds, bind_name, password)
        raise layer.BadCredentials("refused", result_code=49) from refused_bind(sub_code)

    def sign_in(username: str) -> Answer:
        body = {"username": username, "password": "Correct-Horse-9", "directory": corp.name}
        return send(Browser(), "POST", "/rest/session", body)

    assert sign_in(name).status == 200
    monkeypatch.setattr(connection, "sign_in", windows)
    refused, unknown = sign_in(name), sign_in("nobody")
    assert (refused.status, refused.code) == (401, "Auth.Unauthorized")
    assert {**refused.body, "requestId": ""} == {**unknown.body, "requestId": ""}


class WindowsWriter:
    """A connection on which every write is refused in the same words."""

    def __init__(self, refusal: ldap.LDAPError) -> None:
        self.refusal = refusal

    def modify_ext(self, *_: Any, **__: Any) -> int:
        return 1

    add_ext = delete_ext = rename = modify_ext

    def result3(self, *_: Any, **__: Any) -> None:
        raise self.refusal

    def search_ext_s(self, *_: object, **__: object) -> list[Any]:
        return []

    def unbind_ext_s(self) -> None:
        pass


def client_refused_with(kind: type[ldap.LDAPError], result: int, info: str) -> Client:
    quiet, _keep = socket.socketpair()

    def opener(url: str, settings: ServerSettings, seconds: float) -> Connection:
        made = Connection(WindowsWriter(kind({"result": result, "desc": "…", "info": info})), url, quiet.fileno())
        made.quiet = quiet, _keep  # type: ignore[attr-defined]
        return made

    return Client(SETTINGS, opener)


TWO_VALUES = (
    "00002081: AtrErr: DSID-03151907, #1: 0: 00002081: DSID-03151907, problem 1005 (CONSTRAINT_ATT_TYPE), data 0, "
    "Att c (title)"
)


def test_a_second_value_is_19_and_not_20() -> None:
    client = client_refused_with(ldap.CONSTRAINT_VIOLATION, 19, TWO_VALUES)
    with pytest.raises(layer.InvalidValue) as caught:
        client.write(Modify("CN=Ada,DC=corp", (Modification("add", "title", (b"b",)),)))
    assert (caught.value.attribute, type(caught.value)) == ("title", layer.InvalidValue)
    # Where somebody else set the first one after it was looked at, it is a conflict like any other.
    with pytest.raises(layer.VersionConflict):
        client.write(Modify("CN=Ada,DC=corp", (Modification("add", "title", (b"b",)),), guarded=True))


@pytest.mark.parametrize(
    ("kind", "result", "info", "expected"),
    [
        (
            *(ldap.UNWILLING_TO_PERFORM, 53),
            "0000052D: SvcErr: DSID-031A12D2, problem 5003 (WILL_NOT_PERFORM), data 0",
            layer.PasswordPolicy,
        ),
        (
            *(ldap.CONSTRAINT_VIOLATION, 19),
            "00000056: AtrErr: DSID-03191083, problem 1005 (CONSTRAINT_ATT_TYPE), data 0, Att 9005a (unicodePwd)",
            layer.CurrentPasswordWrong,
        ),
        (
            *(ldap.INSUFFICIENT_ACCESS, 50),
            "00000005: SecErr: DSID-031A1190, problem 4003 (INSUFF_ACCESS_RIGHTS), data 0",
            layer.AccessDenied,
        ),
        (
            *(ldap.NO_SUCH_ATTRIBUTE, 16),
            "00000057: LdapErr: DSID-0C090F9A, comment: Error in attribute conversion operation, data 0, v4f7c",
            layer.InvalidValue,
        ),
        (ldap.TIMELIMIT_EXCEEDED, 3, "00000000: SvcErr: DSID-03140000, problem 5001", layer.LimitExceeded),
        (ldap.ADMINLIMIT_EXCEEDED, 11, "00002024: SvcErr: DSID-02080490, problem 5008", layer.LimitExceeded),
    ],
)
def test_a_refused_write_is_understood(
    kind: type[ldap.LDAPError], result: int, info: str, expected: type[layer.LdapError]
) -> None:
    client = client_refused_with(kind, result, info)
    for write in (Modify("CN=Ada,DC=corp", (Modification("replace", "title", (b"x",)),)), Add("CN=Bob,DC=corp", {})):
        with pytest.raises(layer.LdapError) as caught:
            client.write(write)
        assert type(caught.value) is expected
        assert "DSID" not in caught.value.message
