"""In forests with Privileged Access Management the directory ends memberships for a while itself, as a backstop.

Samba has neither the feature nor such values. So these tests stand where python-ldap is, and hand on to Samba what
Windows would make of it: the member without its time to live, and refusals in Windows' words.
"""

from datetime import timedelta
from typing import Any
from uuid import UUID

import ldap
import pytest
from ldap.ldapobject import SimpleLDAPObject

from core.database import shared_clock
from directory.models import MembershipRule
from gateway.pipeline import time_to_live
from tests.approvals.temporary import Later, Place, end_of, give, in_time
from tests.support.cast import Integration

pytestmark = pytest.mark.django_db

EIGHT_HOURS = 8 * 3600 + 300
ILLEGAL = {"result": 53, "desc": "Server is unwilling to perform", "info": "00002077: SvcErr: DSID-0, problem 5003"}


class Windows:
    """The values of members that were sent: (step, time to live, member) in order of the modifies."""

    def __init__(self) -> None:
        self.sent: list[list[tuple[int, int | None, UUID]]] = []
        self.refuses = self.is_lost = False

    def take(self, steps: list[tuple[int, str, list[bytes] | None]]) -> list[tuple[int, str, list[bytes] | None]]:
        members: list[tuple[int, int | None, UUID]] = []
        taken = []
        for step, attribute, values in steps:
            plain = []
            for value in values or ():
                ttl = None
                if value.startswith(b"<TTL="):
                    if self.refuses:
                        raise ldap.UNWILLING_TO_PERFORM(ILLEGAL)
                    number, _, value = value[5:-1].partition(b",")  # noqa: PLW2901
                    ttl = int(number)
                plain.append(value)
                if attribute == "member":
                    members.append((step, ttl, UUID(value[6:-1].decode())))
            taken.append((step, attribute, plain or None))
        if members:
            self.sent.append(members)
        if self.is_lost:
            raise ldap.SERVER_DOWN
        return taken


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> Windows:
    made = Windows()
    original = SimpleLDAPObject.modify_ext

    def modify_ext(self: Any, dn: str, steps: Any, *controls: Any, **named: Any) -> Any:
        return original(self, dn, steps if controls else made.take(steps), *controls, **named)  # the gateway names them

    monkeypatch.setattr(SimpleLDAPObject, "modify_ext", modify_ext)
    monkeypatch.setattr(time_to_live, "has_expiring_links", lambda _: True)
    return made


def test_without_the_feature_tickets_may_outlive(free: Integration, place: Place) -> None:
    bob = place.user()
    given = give(free, place.group, bob, X_Revert_After="PT8H")
    assert given.body == {"added": 1, "removed": 0, "unchanged": 0, "ticketsMayOutlive": True}
    for_good = give(free, place.group, place.user())
    assert for_good.body == {"added": 1, "removed": 0, "unchanged": 0}


def test_the_directory_ends_it_too(free: Integration, place: Place, later: Later, windows: Windows) -> None:
    bob, eva = place.user(), place.user()
    given = give(free, place.group, bob, X_Revert_After="PT8H")
    assert given.body == {"added": 1, "removed": 0, "unchanged": 0, "directoryTtl": EIGHT_HOURS}
    assert windows.sent.pop() == [(ldap.MOD_ADD, EIGHT_HOURS, bob)]
    give(free, place.group, eva)  # for good
    assert windows.sent.pop() == [(ldap.MOD_ADD, None, eva)]
    ada = place.user()
    give(free, place.group, ada, X_Revert_After="PT8H")
    assert free.post(f"/api/ad/groups/{place.group}/members", {"remove": [str(ada)]}).body["removed"] == 1
    assert windows.sent.pop() == [(ldap.MOD_DELETE, None, ada)]
    windows.is_lost = True
    windows.sent.clear()
    assert give(free, place.group, ada, X_Revert_After="PT8H").status == 504
    assert len(windows.sent) == 1  # nothing is sent again that may have been carried out
    windows.is_lost = False
    later(hours=8, minutes=1)
    assert windows.sent.pop() == [(ldap.MOD_DELETE, None, bob)]
    assert place.members() == {eva}


def test_it_follows_the_end(free: Integration, place: Place, later: Later, windows: Windows) -> None:
    bob, eva, ada = place.user(), place.user(), place.user()
    give(free, place.group, ada)
    end = end_of(give(free, place.group, bob, X_Revert_After="PT8H"))
    later(seconds=12)
    windows.sent.clear()
    # Until later, together with somebody new; who is a member for good stays one.
    given = give(free, place.group, bob, eva, ada, X_Revert_After="P1D")
    assert given.body["directoryTtl"] == 86_400 + 300
    day = 86_400 + 300
    assert sorted(windows.sent.pop()) == sorted(
        [(ldap.MOD_ADD, day, eva), (ldap.MOD_DELETE, None, bob), (ldap.MOD_ADD, day, bob)]
    )
    later(seconds=12)
    until = in_time(days=3)
    moved = free.post(f"/api/change-requests/{end.id}/extend", {"until": until})
    assert moved.status == 200
    sent = windows.sent.pop()
    assert [(step, member) for step, _, member in sent] == [(ldap.MOD_DELETE, bob), (ldap.MOD_ADD, bob)]
    assert sent[1][1] == pytest.approx(3 * 86_400 + 300, abs=5)
    end.refresh_from_db()
    assert end.due_at is not None
    assert (end.due_at - shared_clock.now()).days in (2, 3)
    # An end that is moved to the time that it has sends nothing.
    assert free.post(f"/api/change-requests/{end.id}/extend", {"until": until}).status == 200
    assert windows.sent == []
    give(free, place.group, bob)  # for good
    assert windows.sent.pop() == [(ldap.MOD_DELETE, None, bob), (ldap.MOD_ADD, None, bob)]
    end.refresh_from_db()
    assert end.status == "superseded"
    later(days=4)
    assert place.members() == {bob, ada}


def test_who_left_in_between_is_not_added_again(
    free: Integration, place: Place, later: Later, windows: Windows
) -> None:
    bob, eva = place.user(), place.user()
    end = end_of(give(free, place.group, bob, eva, X_Revert_After="PT8H"))
    later(seconds=12)
    place.remove(bob)
    assert free.post(f"/api/change-requests/{end.id}/extend", {"until": None}).status == 200
    assert windows.sent.pop() == [(ldap.MOD_DELETE, None, eva), (ldap.MOD_ADD, None, eva)]
    assert place.members() == {eva}


def test_a_refused_time_to_live(free: Integration, place: Place, later: Later, windows: Windows) -> None:
    windows.refuses = True
    bob = place.user()
    given = give(free, place.group, bob, X_Revert_After="PT8H")
    assert (given.status, given.body["ticketsMayOutlive"]) == (200, True)
    assert "refuses a time to live" in given.body["warnings"][0]
    assert windows.sent == [[(ldap.MOD_ADD, None, bob)]]
    later(hours=8, minutes=1)
    assert place.members() == set()
    # What the directory refuses for another reason is refused as ever.
    answer = give(free, place.group, place.group, X_Revert_After="PT8H")
    assert answer.status == 409


def test_the_end_by_a_membership_rule(windows: Windows, free: Integration, place: Place) -> None:
    bob = place.user()
    connection = free.key.links.get().connection
    MembershipRule.objects.create(
        connection=connection, group_guid=place.group, group_dn="CN=Group", default_duration=timedelta(hours=8)
    )
    given = give(free, place.group, bob)
    assert abs(given.body["directoryTtl"] - EIGHT_HOURS) < 60
    assert give(free, place.group, bob).status == 200  # moves the end
    assert [[(step, ttl is not None) for step, ttl, _ in each] for each in windows.sent] == [
        [(ldap.MOD_ADD, True)],
        [(ldap.MOD_DELETE, False), (ldap.MOD_ADD, True)],
    ]
