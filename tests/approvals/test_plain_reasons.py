"""Why a change is dangerous, told to readers who are confined: without the names of objects outside."""

import json
from typing import Any

import pytest
from django.utils import timezone

from approvals.models import ChangeRequest, Notice
from approvals.review import notifications
from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from keys.models import Person
from lab.directory import Directory, random_name
from tests.approvals.estate import ADMINISTRATORS
from tests.support.cast import Console, make_confined, make_integration, make_person


class Company:
    """An account inside that is protected by a group outside, and beside that group one whose name may be imitated."""

    def __init__(self, directory: Directory, unit: str) -> None:
        self.inside, self.outside = (directory.add_unit(random_name(name), parent=unit) for name in ("in", "out"))
        self.hidden = random_name("hidden")
        self.account = directory.add_user(parent=self.inside)
        group = directory.add_group(self.hidden, parent=self.outside, members=[self.account])
        administrators = f"CN={ADMINISTRATORS},CN=Builtin,{directory.base_dn}"
        directory.add_values(administrators, member=directory.dn(group))
        self.scope = directory.guid(self.inside)
        self.changes: list[tuple[str, str, Any]] = [
            ("PATCH", f"/api/ad/users/{self.account}", {"replace": {"title": "Countess"}}),
            ("POST", f"/api/ad/users/{self.account}/rename", {"name": self.hidden.replace("d", "ԁ")}),
        ]


@pytest.fixture
def company(directory: Directory, organizational_unit: str) -> Company:
    return Company(directory, organizational_unit)


def test_a_dry_run_of_a_confined_caller(connection: DirectoryConnection, company: Company) -> None:
    confined, other = (make_integration(connection, scopes=scopes) for scopes in ([company.scope], []))
    for method, path, body in company.changes:
        shown, whole = (caller.call(method, f"{path}?dryRun=true", body).body for caller in (confined, other))
        assert company.hidden in json.dumps(whole["warnings"])
        assert company.hidden not in json.dumps(shown["warnings"])
        assert (shown["risk"], whole["risk"]) == ("security", "security")
        assert "This is a security change: the target is a protected object." in shown["warnings"]


def test_what_others_asked_for(
    connection: DirectoryConnection, company: Company, mailoutbox: list[Any], settings: Any
) -> None:
    """On the page, in the answer and in the mail of a confined approver."""
    asking = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    held = [asking.call(*change).body["changeRequest"]["id"] for change in company.changes]
    people = {
        "confined": make_confined("owner", connection, company.scope).key.owner,
        "other": make_person(superuser=True),
    }
    for name, person in people.items():
        Person.objects.filter(pk=person.pk).update(email=f"{name}@example.test")
    texts: dict[str, list[str]] = {name: [] for name in people}
    for name, person in people.items():
        console = Console(person)
        for id in held:
            review = console.get(f"/rest/change-requests/{id}/review")
            assert review.body["mayApprove"], review
            texts[name] += [json.dumps(review.body["riskReasons"], ensure_ascii=False)]
            texts[name] += [console.get(f"/console/changes/{id}").body.decode()]
    assert notifications.collect()
    Notice.objects.update(due_at=timezone.now())
    assert notifications.send_due() == len(people)
    for sent in mailoutbox:
        texts[sent.to[0].partition("@")[0]].append(sent.body)
    assert [company.hidden in text for text in texts["other"]] == [True] * 5
    assert [company.hidden in text for text in texts["confined"]] == [False] * 5
    assert all("the target is a protected object." in text for text in texts["confined"])
    assert "looks like that of another object" in texts["confined"][2]


def test_a_request_that_an_earlier_release_kept(connection: DirectoryConnection, company: Company) -> None:
    asking = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    id = asking.call(*company.changes[0]).body["changeRequest"]["id"]
    ChangeRequest.objects.update(plain_reasons=None)
    approver = Console(make_confined("owner", connection, company.scope).key.owner)
    assert approver.get(f"/rest/change-requests/{id}/review").body["riskReasons"] == ["This is a security change."]
