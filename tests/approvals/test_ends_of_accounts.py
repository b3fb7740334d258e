"""What was changed for a while of accounts, and of what is deleted and restored meanwhile, ends all the same."""

from uuid import UUID

import pytest

from approvals.models import ChangeRequest
from lab.directory import Directory, random_name
from lab.domain import Domain
from tests.approvals.temporary import Later, Place, end_of, give
from tests.support.cast import Integration, make_connection, make_integration

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]


def test_an_account_is_enabled_for_a_while(free: Integration, place: Place, later: Later, directory: Directory) -> None:
    bob = place.user()
    assert free.post(f"/api/ad/users/{bob}/disable").status == 200
    given = free.post(f"/api/ad/users/{bob}/enable", X_Revert_After="PT1H")
    assert given.status == 200
    body = {"account": {"passwordNeverExpires": True}}
    assert free.patch(f"/api/ad/users/{bob}", body).status == 200  # another option of the same attribute
    later(hours=2)
    end = end_of(given)
    assert (end.status, directory.is_enabled(bob)) == ("applied", False)


@pytest.fixture
def with_two_options(free: Integration, place: Place, directory: Directory) -> tuple[UUID, ChangeRequest]:
    """An account that is enabled, and whose password never expires, for an hour; and the end of that."""
    bob = place.user()
    directory.modify(bob, userAccountControl="514")
    body = {"replace": {"userAccountControl": "66048"}}
    return bob, end_of(free.patch(f"/api/ad/users/{bob}", body, X_Revert_After="PT1H"))


def test_an_option_of_several_that_is_kept_for_good(
    free: Integration, later: Later, directory: Directory, with_two_options: tuple[UUID, ChangeRequest]
) -> None:
    bob, end = with_two_options
    assert free.post(f"/api/ad/users/{bob}/enable").status == 200
    later(hours=2)
    end.refresh_from_db()
    assert (end.status, directory.text(bob, "userAccountControl")) == ("applied", "512")


@pytest.mark.parametrize("elsewhere", [False, True])
def test_whoever_changes_one_of_several_options_keeps_no_other(
    free: Integration,
    later: Later,
    directory: Directory,
    with_two_options: tuple[UUID, ChangeRequest],
    *,
    elsewhere: bool,
) -> None:
    bob, end = with_two_options
    if elsewhere:
        directory.modify(bob, userAccountControl="512")
    else:
        assert free.patch(f"/api/ad/users/{bob}", {"account": {"passwordNeverExpires": False}}).status == 200
    later(hours=2)
    end.refresh_from_db()
    assert (end.status, directory.text(bob, "userAccountControl")) == ("applied", "514")


def test_an_end_leaves_the_other_options_alone(
    free: Integration, place: Place, later: Later, directory: Directory
) -> None:
    bob = place.user()
    directory.modify(bob, userAccountControl="514")
    body = {"replace": {"userAccountControl": "512"}}
    end = end_of(free.patch(f"/api/ad/users/{bob}", body, X_Revert_After="PT1H"))
    directory.modify(bob, userAccountControl="66048")
    later(hours=2)
    end.refresh_from_db()
    assert (end.status, directory.text(bob, "userAccountControl")) == ("applied", "66050")


def test_attributes_end_each_for_themselves(
    free: Integration, place: Place, later: Later, directory: Directory
) -> None:
    bob = place.user()
    body = {"replace": {"title": "Acting head", "department": "Sales"}}
    assert free.patch(f"/api/ad/users/{bob}", {"replace": {"title": "Clerk"}}).status == 200
    given = free.patch(f"/api/ad/users/{bob}", body, X_Revert_After="PT1H")
    assert given.status == 200
    directory.modify(bob, department="Finance")
    later(hours=2)
    assert (directory.text(bob, "title"), directory.text(bob, "department")) == ("Clerk", "Finance")
    assert end_of(given).status == "applied"


@pytest.mark.parametrize("resource", ["groups", "users"])
def test_what_is_deleted_and_restored_ends_all_the_same(
    free: Integration, place: Place, later: Later, resource: str
) -> None:
    bob = place.user()
    given = give(free, place.group, bob, X_Revert_After="PT8H")
    later(seconds=11)
    deleted = bob if resource == "users" else place.group
    assert free.delete(f"/api/ad/{resource}/{deleted}").status == 204
    assert free.post(f"/api/ad/deleted-objects/{deleted}/restore").status == 200
    assert place.members() == {bob}
    later(hours=9)
    assert (end_of(given).status, place.members()) == ("applied", set())


def test_a_restored_tombstone_gets_back_what_ends(
    db: None, domain_without_recycle_bin: Domain, tombstone_directory: Directory, later: Later
) -> None:
    free = make_integration(make_connection(domain_without_recycle_bin))
    unit = tombstone_directory.add_unit(random_name("unit"))
    place = Place(tombstone_directory, unit)
    bob = place.user()
    given = give(free, place.group, bob, X_Revert_After="PT8H")
    later(seconds=11)
    assert free.delete(f"/api/ad/users/{bob}").status == 204
    assert free.post(f"/api/ad/deleted-objects/{bob}/restore").status == 200
    assert place.members() == {bob}
    later(hours=9)
    assert (end_of(given).status, place.members()) == ("applied", set())
