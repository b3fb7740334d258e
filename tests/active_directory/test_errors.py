"""Every refusal of a real domain controller, and what Windows words differently."""

import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import ldap
import pytest

import active_directory as layer
from active_directory import Add, Client, Delete, Modification, Modify, Rename, quoted_password
from active_directory.errors import clean_message, error_from
from lab.directory import PASSWORD, Directory

Attempt = Callable[..., object]


class Case(NamedTuple):
    """What is tried with a client, a user's name and its unit's; what comes of it and which attribute is to blame."""

    title: str
    attempt: Attempt
    expected: type[layer.LdapError]
    attribute: str | None


def modify(*steps: tuple[Any, str, tuple[bytes, ...]], guarded: bool = False) -> Attempt:
    return lambda client, dn, **_: client.write(Modify(dn, tuple(Modification(*step) for step in steps), guarded))


def reset(password: str) -> Attempt:
    return modify(("replace", "unicodePwd", (quoted_password(password),)))


def change(old: str, new: str) -> Attempt:
    return modify(("delete", "unicodePwd", (quoted_password(old),)), ("add", "unicodePwd", (quoted_password(new),)))


GROUP = b"CN=Domain Guests,CN=Users,DC=corp,DC=example,DC=test"
MISSING = "OU=missing,DC=corp,DC=example,DC=test"
USER = {"objectClass": [b"user"], "sAMAccountName": [b"another-one"]}

CASES = [
    Case("missing object", lambda client, unit, **_: client.read(f"CN=missing,{unit}"), layer.NotFound, None),
    Case("unknown GUID", lambda client, **_: client.read(uuid.uuid4()), layer.NotFound, None),
    Case("malformed name", lambda client, **_: client.read("nonsense"), layer.InvalidValue, None),
    Case("NUL in a name", lambda client, **_: client.read("CN=a\x00b"), layer.InvalidValue, None),
    Case(
        "missing parent",
        lambda client, unit, **_: client.write(Add(f"CN=a,OU=missing,{unit}", USER)),
        layer.NotFound,
        None,
    ),
    Case(
        "missing new parent",
        # It was there when the change was proposed: who proposes anew learns that it is gone.
        lambda client, dn, unit, **_: client.write(Rename(dn, "CN=b", f"OU=missing,{unit}")),
        layer.VersionConflict,
        None,
    ),
    Case("name taken", lambda client, dn, **_: client.write(Add(dn, USER)), layer.AlreadyExists, None),
    Case("not empty", lambda client, unit, **_: client.write(Delete(unit)), layer.NotEmpty, None),
    Case("stale swap", modify(("delete", "title", (b"old",)), guarded=True), layer.VersionConflict, "title"),
    Case("absent value", modify(("delete", "title", (b"old",))), layer.InvalidValue, "title"),
    Case(
        "unknown attribute",
        modify(("replace", "noSuch", (b"1",)), guarded=True),
        layer.InvalidValue,
        "noSuch",
    ),
    Case("several values", modify(("replace", "title", (b"a", b"b"))), layer.InvalidValue, "title"),
    Case("empty value", modify(("replace", "title", (b"",))), layer.InvalidValue, "title"),
    Case("bad integer", modify(("replace", "countryCode", (b"abc",))), layer.InvalidValue, "countryCode"),
    Case("bad UTF-8", modify(("replace", "displayName", (b"\xff",))), layer.InvalidValue, "displayName"),
    Case("too long", modify(("replace", "title", (b"x" * 200,))), layer.InvalidValue, "title"),
    Case("not of the class", modify(("replace", "gPLink", (b"x",))), layer.InvalidValue, "gPLink"),
    Case("malformed DN", modify(("replace", "manager", (b"nonsense",))), layer.InvalidValue, None),
    Case("dangling DN", modify(("replace", "manager", (b"CN=x,DC=corp",))), layer.InvalidReference, None),
    Case("name by modify", modify(("replace", "cn", (b"x",))), layer.InvalidValue, None),
    Case("system only", modify(("replace", "objectGUID", (b"x" * 16,))), layer.InvalidValue, "objectGUID"),
    Case("back link", modify(("replace", "memberOf", (GROUP,))), layer.UnwillingToPerform, "memberOf"),
    Case("password policy", reset("short"), layer.PasswordPolicy, None),
    Case("wrong password", change("Not-The-One-1", "Another-Horse-9"), layer.CurrentPasswordWrong, None),
]


@pytest.mark.parametrize("case", CASES, ids=[case.title for case in CASES])
def test_a_refusal_is_understood(client: Client, directory: Directory, organizational_unit: str, case: Case) -> None:
    user = directory.add_user("refused", parent=organizational_unit, password=PASSWORD)
    with pytest.raises(layer.LdapError) as caught:
        case.attempt(client=client, dn=directory.dn(user), unit=organizational_unit)
    assert type(caught.value) is case.expected, caught.value
    if case.attribute is not None:
        assert caught.value.attribute == case.attribute
    assert organizational_unit not in caught.value.message
    assert ".c:" not in caught.value.message


def test_names_in_use_elsewhere_are_reported_as_such(
    client: Client, directory: Directory, organizational_unit: str
) -> None:
    directory.add_user("first", parent=organizational_unit, sAMAccountName="taken", userPrincipalName="taken@corp.test")
    for clash in ({"sAMAccountName": [b"taken"]}, {"userPrincipalName": [b"taken@corp.test"]}):
        with pytest.raises(layer.AlreadyExists):
            client.write(Add(f"CN=second,{organizational_unit}", USER | clash))


def test_an_account_without_rights_is_denied(client: Client, directory: Directory, organizational_unit: str) -> None:
    user = directory.add_user(parent=organizational_unit, password=PASSWORD)
    plain = layer.ServerSettings(
        client.settings.urls, client.settings.base_dn, directory.dn(user), PASSWORD, client.settings.ca_certificate
    )
    person = Client(plain)
    with pytest.raises(layer.AccessDenied) as caught:
        person.write(Modify(organizational_unit, (Modification("replace", "description", (b"x",)),)))
    assert caught.value.hex_code == "00002098"
    person.close()


WINDOWS = [
    (
        ldap.CONSTRAINT_VIOLATION,
        19,
        "0000052D: SvcErr: DSID-031A12D2, problem 5003 (WILL_NOT_PERFORM), data 0",
        layer.PasswordPolicy,
        None,
    ),
    (
        ldap.CONSTRAINT_VIOLATION,
        19,
        (
            "00000056: AtrErr: DSID-03191083, #1: 0: 00000056: DSID-03191083, problem 1005 "
            "(CONSTRAINT_ATT_TYPE), data 0, Att 9005a (unicodePwd)"
        ),
        layer.CurrentPasswordWrong,
        "unicodePwd",
    ),
    (
        ldap.CONSTRAINT_VIOLATION,
        19,
        (
            "00002081: AtrErr: DSID-03151907, #1: 0: 00002081: DSID-03151907, problem 1005 "
            "(CONSTRAINT_ATT_TYPE), data 0, Att c (title)"
        ),
        layer.InvalidValue,
        "title",
    ),
    (
        ldap.ALREADY_EXISTS,
        68,
        "00000562: UpdErr: DSID-031A11E2, problem 6005 (ENTRY_EXISTS), data 0",
        layer.AlreadyExists,
        None,
    ),
    (
        ldap.NOT_ALLOWED_ON_NONLEAF,
        66,
        "00002015: UpdErr: DSID-031A1236, problem 6003 (CANT_ON_NON_LEAF), data 0",
        layer.NotEmpty,
        None,
    ),
    (
        ldap.CONSTRAINT_VIOLATION,
        19,
        (
            "000021C8: AtrErr: DSID-03200E95, #1: 0: 000021C8: DSID-03200E95, problem 1005 "
            "(CONSTRAINT_ATT_TYPE), data 0, Att 90290 (userPrincipalName)"
        ),
        layer.AlreadyExists,
        "userPrincipalName",
    ),
    (
        ldap.NO_SUCH_OBJECT,
        32,
        "0000208D: NameErr: DSID-03100245, problem 2001 (NO_OBJECT), data 0, best match of: 'OU=Secret,DC=corp'",
        layer.NotFound,
        None,
    ),
    (ldap.INSUFFICIENT_ACCESS, 50, "00000005: SecErr: DSID-03152E29, problem 4003", layer.AccessDenied, None),
    (ldap.UNWILLING_TO_PERFORM, 53, "0000001F: SvcErr: DSID-031A126C, problem 5003", layer.UnwillingToPerform, None),
    (ldap.BUSY, 51, "", layer.Unavailable, None),
    (ldap.ADMINLIMIT_EXCEEDED, 11, "", layer.LimitExceeded, None),
    (ldap.OTHER, 80, "0000001: something", layer.DirectoryFault, None),
]


@pytest.mark.parametrize(("kind", "result", "info", "expected", "attribute"), WINDOWS)
def test_what_windows_says_is_understood(
    kind: type[ldap.LDAPError], result: int, info: str, expected: type[layer.LdapError], attribute: str | None
) -> None:
    error = error_from(kind({"result": result, "desc": "…", "info": info}))
    assert type(error) is expected
    assert error.attribute == attribute
    assert "DSID" not in error.message
    assert "Secret" not in error.message


def test_a_second_value_in_a_guarded_modify_is_a_conflict() -> None:
    info = "00002081: AtrErr: DSID-03151907, problem 1005 (CONSTRAINT_ATT_TYPE), data 0, Att c (title)"
    error = ldap.CONSTRAINT_VIOLATION({"result": 19, "info": info})
    assert isinstance(error_from(error, guarded=True), layer.VersionConflict)


@pytest.mark.parametrize(
    ("kind", "result", "info"),
    [
        (ldap.ALREADY_EXISTS, 68, "00000562: UpdErr: DSID-031A11E2, problem 6005 (ENTRY_EXISTS), data 0"),
        (ldap.ALREADY_EXISTS, 68, "00000528: UpdErr: DSID-031A11E2, problem 6005 (ENTRY_EXISTS), data 0"),
        (ldap.UNWILLING_TO_PERFORM, 53, "00000561: SvcErr: DSID-031A120C, problem 5003 (WILL_NOT_PERFORM), data 0"),
        (ldap.UNWILLING_TO_PERFORM, 53, "00000529: SvcErr: DSID-031A120C, problem 5003 (WILL_NOT_PERFORM), data 0"),
    ],
)
def test_a_membership_changed_meanwhile_is_a_conflict(kind: type[ldap.LDAPError], result: int, info: str) -> None:
    error = kind({"result": result, "info": info})
    assert isinstance(error_from(error, guarded=True), layer.VersionConflict)
    assert not isinstance(error_from(error), layer.VersionConflict)


def test_a_name_in_use_is_no_conflict_of_a_guarded_modify() -> None:
    taken = ldap.ALREADY_EXISTS({"result": 68, "info": "00002071: samldb: sAMAccountName already in use"})
    assert isinstance(error_from(taken, guarded=True), layer.AlreadyExists)
    unwilling = ldap.UNWILLING_TO_PERFORM({"result": 53, "info": "0000001F: SvcErr: problem 5003"})
    assert isinstance(error_from(unwilling, guarded=True), layer.UnwillingToPerform)


@pytest.mark.parametrize("kind", [ldap.SERVER_DOWN, ldap.TIMEOUT])
def test_losing_the_connection_is_unknown_for_writes_only(kind: type[ldap.LDAPError]) -> None:
    assert type(error_from(kind({"result": -1}), writing=True)) is layer.OutcomeUnknown
    assert type(error_from(kind({"result": -1}))) is layer.Unavailable


def test_libldap_s_own_errors_do_not_repeat_an_earlier_answer() -> None:
    error = error_from(ldap.FILTER_ERROR({"result": -7, "desc": "Bad search filter", "info": "left from before"}))
    assert isinstance(error, layer.FilterError)
    assert error.message == "Bad search filter"


def test_messages_lose_names_and_paths_but_keep_the_code() -> None:
    raw = (
        "00002030: objectclass: Cannot add CN=Love\\, Ada,OU=Top Secret,DC=corp,DC=example,DC=test, parent "
        "does not exist! at ../../source4/dsdb/samdb/ldb_modules/extended_dn_store.c:357:extended_replace_callback"
    )
    assert clean_message(raw) == "00002030: objectclass: Cannot add the object, parent does not exist!"
