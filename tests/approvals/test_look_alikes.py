"""Names that look like another object's: they are security changes, which name the other one and its place."""

import pytest

from approvals.models import ChangeRequest
from core.call import SupervisionLevel
from core.text.names import are_look_alikes, candidate_look_alikes
from directory.models import DirectoryConnection
from lab.directory import Directory, random_name
from tests.support.cast import Answer, Integration, make_integration

ALIKE = (
    ("Admins", "Аdmіns"),  # Cyrillic А and і
    ("ADMINS", "аdmins"),
    ("admin", "adm1n"),
    ("Ibm", "lbm"),
    ("server10", "serverlO"),
    ("modern", "modem"),
    ("Müller", "Мüller"),
    ("Ада", "Aдa"),
    ("Domain Admins", "Domain\u00a0 Admins"),
    ("svc", "s\u200bvc"),
    ("Omega", "Οmega"),  # Greek Ο
)
DIFFERENT = (("Ada", "Adam"), ("Ada", "Ида"), ("mail", "mali"), ("Ian", "Jan"), ("PC-01", "PC-02"), ("Zoë", "Zoe"))
TOLD = "This is a security change: it gives a name that looks like that of {}."


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_names_that_look_alike(one: str, other: str) -> None:
    assert are_look_alikes(one, other)
    assert are_look_alikes(other, one)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_names_that_do_not(one: str, other: str) -> None:
    assert not are_look_alikes(one, other)


@pytest.mark.parametrize("deceiving", ["Аdmіns", "adm1ns", "ADMINЅ", "аdmins"])
def test_the_name_that_is_imitated_is_among_those_looked_for(deceiving: str) -> None:
    assert "admins" in candidate_look_alikes(deceiving)


def test_not_too_many_are_looked_for() -> None:
    assert 32 < len(candidate_look_alikes("l1l1l1l1l1l1l1l1l1l1l1l1")) <= 64


@pytest.fixture
def asking(connection: DirectoryConnection) -> Integration:
    """May do everything; destructive and security changes are held."""
    return make_integration(connection, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)


def reasons_of(answer: Answer) -> list[str]:
    """Why a held change waits, as far as it is about names that look alike."""
    assert answer.status == 202, answer.body
    held = ChangeRequest.objects.get(id=answer.body["changeRequest"]["id"])
    return [reason for reason in held.risk_reasons if "looks like" in reason]


@pytest.fixture
def name() -> str:
    """A name of letters that have twins, in no other test."""
    return f"ops{random_name('')}"


@pytest.mark.parametrize("kind", ["users", "groups", "contacts"])
@pytest.mark.parametrize("place", ["beside it", "elsewhere"])
def test_making_one_waits_and_names_the_other(
    asking: Integration, directory: Directory, organizational_unit: str, name: str, kind: str, place: str
) -> None:
    parent = organizational_unit if place == "beside it" else directory.add_unit("far", parent=organizational_unit)
    twin = directory.dn(directory.add_group(name, parent=parent))
    body = {"name": name.replace("o", "о"), "parent": organizational_unit}
    reasons = reasons_of(asking.post(f"/api/ad/{kind}", body))
    assert reasons == [TOLD.format(twin)]


def test_the_same_name_elsewhere_and_another_one_are_ordinary(
    asking: Integration, directory: Directory, organizational_unit: str, name: str
) -> None:
    directory.add_group(name, parent=directory.add_unit("far", parent=organizational_unit))
    for given in (name, f"{name}2"):
        answer = asking.post("/api/ad/contacts", {"name": given, "parent": organizational_unit})
        assert answer.status == 201, answer.body


def test_renaming_moving_and_showing_another_name(
    asking: Integration, directory: Directory, organizational_unit: str, name: str
) -> None:
    far = directory.add_unit("far", parent=organizational_unit)
    twin = directory.dn(directory.add_user(name, parent=far))
    other, deceiving = directory.add_user(parent=far), name.replace("o", "0")
    renamed = asking.post(f"/api/ad/users/{other}/rename", {"name": deceiving})
    assert reasons_of(renamed) == [TOLD.format(twin)]
    shown = asking.patch(f"/api/ad/users/{other}", {"replace": {"displayName": [deceiving]}})
    assert reasons_of(shown) == [TOLD.format(twin)]
    moved = directory.add_user(deceiving, parent=organizational_unit)
    assert reasons_of(asking.post(f"/api/ad/users/{moved}/move", {"parent": far})) == [TOLD.format(twin)]


def test_an_account_name_and_a_sibling_that_nobody_would_guess(
    asking: Integration, directory: Directory, organizational_unit: str, name: str
) -> None:
    by_account = directory.dn(directory.add_user(parent=organizational_unit, sAMAccountName=name))
    body = {"name": random_name("x"), "parent": organizational_unit, "samAccountName": name.replace("o", "0")}
    assert reasons_of(asking.post("/api/ad/users", body)) == [TOLD.format(by_account)]
    elsewhere = directory.add_unit("elsewhere", parent=organizational_unit)
    sibling = directory.dn(directory.add_group(f"Gоор {name}", parent=elsewhere))
    body = {"name": f"Goop {name}", "parent": elsewhere}
    assert reasons_of(asking.post("/api/ad/contacts", body)) == [TOLD.format(sibling)]


@pytest.mark.parametrize("what", ["deleted", "renamed", "moved"])
def test_a_sibling_that_has_gone_or_has_another_name_is_not_told(
    asking: Integration, directory: Directory, organizational_unit: str, name: str, what: str
) -> None:
    here, far = (directory.add_unit(each, parent=organizational_unit) for each in ("here", "far"))
    body = {"name": f"Goop {name}", "parent": here}
    sibling = directory.add_unit(f"Gоор {name}", parent=here)
    assert reasons_of(asking.post("/api/ad/contacts", body)) == [TOLD.format(sibling)]
    if what == "deleted":
        directory.delete(sibling)
    elif what == "renamed":
        directory.rename(sibling, random_name("other"))
    else:
        directory.move(sibling, parent=far)
    answer = asking.post("/api/ad/contacts", body)
    assert answer.status == 201, answer.body


def test_one_that_came_beside_others_a_moment_ago(
    asking: Integration, directory: Directory, organizational_unit: str, name: str
) -> None:
    directory.add_unit("other", parent=organizational_unit)
    body = {"name": f"Goop {name}", "parent": organizational_unit}
    dry_run = asking.post("/api/ad/contacts?dryRun=true", body)
    assert dry_run.body["risk"] == "ordinary"
    sibling = directory.add_unit(f"Gоор {name}", parent=organizational_unit)
    assert asking.post("/api/ad/contacts?dryRun=true", body).body["risk"] == "security"
    assert reasons_of(asking.post("/api/ad/contacts", body)) == [TOLD.format(sibling)]


def test_members_and_groups_that_look_like_others(
    asking: Integration, directory: Directory, organizational_unit: str, name: str
) -> None:
    deceiving = directory.add_user(name.replace("o", "о"), parent=organizational_unit)
    meant = directory.dn(directory.add_user(name, parent=organizational_unit))
    group = directory.add_group(f"{name}s", parent=organizational_unit)
    twin_group = directory.dn(directory.add_group(f"{name}s".replace("o", "0"), parent=organizational_unit))
    reasons = reasons_of(asking.post(f"/api/ad/groups/{group}/members", {"add": [str(deceiving)]}))
    assert sorted(reason.partition(": ")[2] for reason in reasons) == [
        f"it refers to {directory.dn(deceiving)}, whose name looks like that of {meant}.",
        f"its target has a name that looks like that of {twin_group}.",
    ]


def test_a_dry_run_warns_a_person(
    connection: DirectoryConnection, directory: Directory, organizational_unit: str, name: str
) -> None:
    twin = directory.dn(directory.add_group(name, parent=organizational_unit))
    integration = make_integration(connection, level=SupervisionLevel.ACT)
    body = {"name": name.replace("o", "о"), "parent": organizational_unit}
    answer = integration.post("/api/ad/groups?dryRun=true", body)
    assert TOLD.format(twin) in answer.body["warnings"], answer.body


@pytest.mark.parametrize("known", ["account name", "name"])
def test_a_confined_caller_is_not_told_what_lies_outside(
    connection: DirectoryConnection, directory: Directory, organizational_unit: str, name: str, known: str
) -> None:
    inside, outside = (directory.add_unit(each, parent=organizational_unit) for each in ("inside", "outside"))
    account = name if known == "account name" else random_name("u")
    directory.add_user(name, parent=outside, sAMAccountName=account)
    level = SupervisionLevel.ASK_DESTRUCTIVE_SECURITY
    confined = make_integration(connection, level=level, scopes=[directory.guid(inside)])
    answer = confined.post("/api/ad/contacts", {"name": name.replace("o", "о"), "parent": inside})
    if known == "account name":
        assert reasons_of(answer) == [TOLD.format("an account that the caller may not see")]
    else:
        assert answer.status == 201, answer.body
