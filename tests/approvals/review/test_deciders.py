"""Nobody approves their own change by a second self: a key issued for another, an account they made or took over."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone

from approvals.models import ChangeRequest
from core.call import SupervisionLevel
from core.configuration_sections import OidcProvider
from directory.models import DirectoryConnection
from gateway import pipeline
from keys.models import ApiKey, Person, Role, SecondFactor
from lab.directory import PASSWORD, Directory, random_name
from tests.approvals.proposals import hold
from tests.audit.calls import make_call
from tests.support.cast import Answer, Console, make_integration, make_person, permissions
from tests.support.configuration import Configure

pytestmark = pytest.mark.django_db

READ, DECIDE = "directory.read_object", "approvals.decide_change"
CHANGES_PEOPLE = ("keys.add_person", "keys.change_person", "keys.view_person")
LONG = "a long and unusual phrase"
ADDRESSES: dict[str, list[str]] = {"allowedAddresses": []}


@pytest.fixture
def key() -> ApiKey:
    """Somebody else's key, issued before anybody here looked."""
    return make_integration(None, may=[READ], level=SupervisionLevel.ASK_EVERY_CHANGE, allowed_addresses=["::1"]).key


@pytest.fixture
def boss() -> Console:
    return Console(make_person("boss", superuser=True))


def held_for(key: ApiKey) -> ChangeRequest:
    """What the key asks for now."""
    call = make_call()
    owner, credential = call.person, call.credential
    return hold(
        make_call(
            person=type(owner)(id=key.owner_id, username=key.owner.username, display_name=""),
            credential=type(credential)(kind=credential.kind, id=str(key.pk), name=key.name),
        )
    )


def decide(console: Console, held: ChangeRequest, decision: str = "approve") -> Answer:
    body = {"digest": held.digest} if decision == "approve" else {"comment": "no"}
    return console.post(f"/rest/change-requests/{held.id}/{decision}", body)


def expect_barred(console: Console, held: ChangeRequest) -> None:
    """Every way to decide it is closed, and none is offered."""
    for decision in ("approve", "reject"):
        refused = decide(console, held, decision)
        assert (refused.status, refused.code) == (409, "Approvals.OwnRequest")
        assert "within 30 days" in refused.body["detail"]
        page = console.submit(f"/console/changes/{held.id}/{decision}", digest=held.digest, comment="no")
        assert page.status == 409
        text = console.get(f"/console/changes/{held.id}").body.decode()
        assert "Somebody else has to decide" in text
        assert ">Approve<" not in text
    held.refresh_from_db()
    assert (held.status, held.first_approved_by) == ("pending", None)
    review = console.get(f"/rest/change-requests/{held.id}/review").body
    assert (review["mayApprove"], review["mayReject"]) == (False, False)
    assert review["barred"]


def expect_free(console: Console, held: ChangeRequest) -> None:
    review = console.get(f"/rest/change-requests/{held.id}/review").body
    assert (review["mayApprove"], review["barred"], review["deciders"]) == (True, None, [])
    assert decide(console, held).status == 200


def test_somebody_who_has_nothing_to_do_with_it_decides(key: ApiKey) -> None:
    expect_free(Console(make_person(may=[DECIDE])), held_for(key))
    expect_free(Console(make_person(superuser=True)), held_for(key))


def _issues(boss: Console, key: ApiKey) -> ApiKey:
    body = {"name": "HR", "owner": key.owner.username, "role": str(key.role_id)}
    return ApiKey.objects.get(pk=boss.post("/rest/api-keys", body).body["id"])


def _rest(method: str, path: str, body: Any = None) -> Callable[[Console, ApiKey], ApiKey]:
    def act(boss: Console, key: ApiKey) -> ApiKey:
        names = {"key": key.pk, "role": key.role_id, "owner": key.owner.public_id}
        answer = boss.call(method, f"/rest/{path.format(**names)}", body)
        assert answer.status in (200, 201, 204), answer
        return key

    return act


def _widens_a_group(boss: Console, key: ApiKey) -> ApiKey:
    group = Group.objects.create(name="Desk")
    key.owner.groups.add(group)
    answer = boss.patch(f"/rest/permission-groups/{UUID(int=group.pk)}", {"permissions": [DECIDE]})
    assert answer.status == 200, answer
    return key


def _gives_another_role(boss: Console, key: ApiKey) -> ApiKey:
    role = Role.objects.create(name="Wide")
    role.permissions.set(permissions([READ, DECIDE]))
    return _rest("PATCH", "api-keys/{key}", {"role": str(role.pk)})(boss, key)


def _resets_the_second_factor(boss: Console, key: ApiKey) -> ApiKey:
    SecondFactor.objects.create(person=key.owner, secret="JBSWY3DPEHPK3PXP", confirmed_at=timezone.now())
    return _rest("POST", "users/{owner}/reset-second-factor")(boss, key)


BEHIND_THE_KEY = {
    "issued": _issues,
    "rotated": _rest("POST", "api-keys/{key}/rotate", {}),
    "a lower level": _rest("PATCH", "api-keys/{key}", {"supervisionLevel": "act"}),
    "addresses lifted": _rest("PATCH", "api-keys/{key}", ADDRESSES),
    "another role": _gives_another_role,
    "a wider role": _rest("PATCH", "roles/{role}", {"permissions": [READ, DECIDE]}),
    "an owner who may do more": _rest("PATCH", "users/{owner}", {"permissions": [READ, DECIDE]}),
    "an owner whom they sent a link": _rest("POST", "users/{owner}/invite"),
    "an owner without a second factor": _resets_the_second_factor,
    "a wider group of the owner": _widens_a_group,
}


@pytest.mark.parametrize("name", BEHIND_THE_KEY)
def test_whoever_issued_or_widened_the_key(name: str, key: ApiKey, boss: Console) -> None:
    key = BEHIND_THE_KEY[name](boss, key)
    expect_barred(boss, held_for(key))
    expect_free(Console(make_person(may=[DECIDE])), held_for(key))


@pytest.mark.parametrize(
    "act",
    [
        _rest("PATCH", "api-keys/{key}", {"name": "Payroll", "supervisionLevel": "ask_every_change"}),
        _rest("PATCH", "roles/{role}", {"description": "x"}),
        _rest("PATCH", "users/{owner}", {"displayName": "Ada"}),
        _rest("POST", "api-keys/{key}/revoke"),
    ],
    ids=["renamed", "described", "called otherwise", "revoked"],
)
def test_what_gives_nobody_more_bars_nobody(
    act: Callable[[Console, ApiKey], ApiKey], key: ApiKey, boss: Console
) -> None:
    expect_free(boss, held_for(act(boss, key)))


def _by_requester(requester: Console, approver: Person, body: dict[str, Any]) -> None:
    answer = requester.patch(f"/rest/users/{approver.public_id}", body)
    assert answer.status == 200, answer


@pytest.fixture
def requester() -> Console:
    """Owns a key, and may make and change people who may do no more than they."""
    return Console(make_person("mallory", may=[READ, DECIDE, *CHANGES_PEOPLE]))


@pytest.fixture
def own_key(requester: Console) -> ApiKey:
    return make_integration(None, may=[READ], owner=requester.person).key


def make_account(console: Console, username: str, *may: str) -> Console:
    body = {"username": username, "permissions": list(may)}
    answer = console.post("/rest/users", body)
    assert answer.status == 201, answer
    return Console(Person.objects.get(username=username))


def test_an_account_that_the_requester_made(requester: Console, own_key: ApiKey) -> None:
    expect_barred(make_account(requester, "second-self", DECIDE), held_for(own_key))


def test_an_account_that_was_made_by_one_that_the_requester_made(requester: Console, own_key: ApiKey) -> None:
    second = make_account(requester, "second-self", DECIDE, *CHANGES_PEOPLE)
    third = make_account(second, "third-self", DECIDE)
    expect_barred(third, held_for(own_key))


@pytest.mark.parametrize(
    "body",
    [{"permissions": [DECIDE, READ]}, {"active": True}],
    ids=["permissions", "activated"],
)
def test_an_account_that_the_requester_changed(body: dict[str, Any], requester: Console, own_key: ApiKey) -> None:
    person = make_person(may=[DECIDE])
    Person.objects.filter(pk=person.pk).update(is_active="active" not in body)
    _by_requester(requester, person, body)
    expect_barred(Console(person), held_for(own_key))


def test_an_account_that_somebody_else_made(requester: Console, own_key: ApiKey, boss: Console) -> None:
    expect_free(make_account(boss, "approver", DECIDE), held_for(own_key))
    person = make_person(may=[DECIDE])
    _by_requester(requester, person, {"displayName": "Grace"})
    expect_free(Console(person), held_for(own_key))


@pytest.mark.parametrize("whose", ["approver", "requester"])
def test_who_set_somebodys_password_in_the_directory(
    whose: str, connection: DirectoryConnection, directory: Directory, organizational_unit: str
) -> None:
    """They can sign in as that person."""
    ada = directory.add_user(parent=organizational_unit, password=PASSWORD)
    may = [READ, DECIDE, "directory.reset_password", "directory.change_password"]
    of_ada, other = make_person(may=may), make_person(may=may)
    Person.objects.filter(pk=of_ada.pk).update(connection=connection, object_guid=ada)
    asking, deciding = (other, of_ada) if whose == "approver" else (of_ada, other)
    key = make_integration(None, may=[READ], owner=asking).key
    portal = make_integration(connection, may=may, owner=other)
    directory.modify(ada, pwdLastSet="0")  # no minimum age
    passwords = {"currentPassword": PASSWORD, "newPassword": "An0ther-l0ng-phrase"}
    assert portal.post(f"/api/ad/users/{ada}/change-password", passwords).status == 204
    expect_free(Console(deciding), held_for(key))  # Ada told the portal her old one
    assert portal.post(f"/api/ad/users/{ada}/reset-password", {"generate": True}).status == 200
    expect_barred(Console(deciding), held_for(key))


def test_who_set_the_name_by_which_a_provider_knows_somebody(
    connection: DirectoryConnection, ada: UUID, configure: Configure
) -> None:
    of_ada, other = make_person(may=[DECIDE]), make_person(superuser=True)
    Person.objects.filter(pk=of_ada.pk).update(connection=connection, object_guid=ada)
    key = make_integration(connection, owner=other)
    assert key.patch(f"/api/ad/users/{ada}", {"replace": {"userPrincipalName": random_name("mallory")}}).status == 200
    expect_free(Console(of_ada), held_for(key.key))
    claim = OidcProvider(Name="a", Issuer="https://a", ClientId="a", Claim="upn", ClaimNames="userPrincipalName")
    configure("SignIn", Oidc=(claim,))
    expect_barred(Console(of_ada), held_for(key.key))


def test_who_got_the_password_of_a_reset_that_they_approved(
    connection: DirectoryConnection, boss: Console, ada: UUID
) -> None:
    of_ada, other = make_person(may=[DECIDE]), make_person(may=[READ, DECIDE])
    Person.objects.filter(pk=of_ada.pk).update(connection=connection, object_guid=ada)
    careful = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    asked = careful.post(f"/api/ad/users/{ada}/reset-password", {"generate": True})
    held = ChangeRequest.objects.get(pk=asked.body["changeRequest"]["id"])
    assert decide(Console(other), held).status == 200
    pipeline.apply_change_request(held.id)
    expect_barred(Console(of_ada), held_for(make_integration(None, may=[READ], owner=other).key))
    expect_free(boss, held_for(make_integration(None, may=[READ], owner=other).key))


def test_the_first_of_two_approvals_too(requester: Console, own_key: ApiKey, configure: Configure) -> None:
    configure("Approvals", ProtectedNeedsTwo=True)
    held = held_for(own_key)
    ChangeRequest.objects.filter(pk=held.pk).update(protected=True)
    expect_barred(make_account(requester, "second-self", DECIDE), held)


def test_issued_before_such_things_were_recorded(key: ApiKey, boss: Console) -> None:
    ApiKey.objects.filter(pk=key.pk).update(created_by=boss.person)
    expect_barred(boss, held_for(key))
    ApiKey.objects.filter(pk=key.pk).update(created_at=timezone.now() - timedelta(days=31))
    expect_free(boss, held_for(key))


def test_waiting_until_the_time_is_over_does_not_help(key: ApiKey, boss: Console, configure: Configure) -> None:
    """It is counted from the request, which was made while they were barred."""
    ApiKey.objects.filter(pk=key.pk).update(created_by=boss.person, created_at=timezone.now() - timedelta(days=31))
    held = held_for(key)
    ChangeRequest.objects.filter(pk=held.pk).update(created_at=timezone.now() - timedelta(days=5))
    expect_barred(boss, held)


def test_the_configuration_turns_it_off(key: ApiKey, boss: Console, configure: Configure) -> None:
    key = _issues(boss, key)
    configure("Approvals", IssuerBarDays=0)
    expect_free(boss, held_for(key))


def test_who_else_could(key: ApiKey, boss: Console) -> None:
    held = held_for(_issues(boss, key))
    review = boss.get(f"/rest/change-requests/{held.id}/review").body
    assert review["deciders"] == []
    page = boss.get(f"/console/changes/{held.id}").body.decode()
    assert "There is nobody else who could" in page
    assert "Approvals:IssuerBarDays" in page
    make_person("katherine", may=[DECIDE])
    assert boss.get(f"/rest/change-requests/{held.id}/review").body["deciders"] == ["katherine"]
    assert "It can be decided by katherine." in boss.get(f"/console/changes/{held.id}").body.decode()
