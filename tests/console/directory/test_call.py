"""Somebody is on the telephone: found, identified, unlocked, with a password and a note, on one page."""

from uuid import UUID

import pytest

from audit.models import OperationRecord
from directory.models import DirectoryConnection
from lab.directory import Directory
from tests.console.plain_browser import PlainBrowser
from tests.support.cast import Console, make_person

pytestmark = pytest.mark.django_db

HELP_DESK = ["directory.read_object", "directory.unlock_account", "directory.reset_password"]


def test_a_call(
    administrator: PlainBrowser, connection: DirectoryConnection, directory: Directory, organizational_unit: str
) -> None:
    """After the search two clicks unlock the caller, and a third one gives a password that can be said."""
    ada = directory.add_user(
        "Ada Lovelace",
        parent=organizational_unit,
        password="Correct-Horse-9",
        employeeNumber="4711",
        telephoneNumber="+49 30 5550-8642",
    )
    directory.lock_out(ada)
    administrator.open(f"/console/connections/{connection.id}/edit")
    administrator.press("Save", identityQuestions="What is your number? {employeeNumber}\nWho is your boss?")
    assert "What is your number?" in administrator.open(f"/console/connections/{connection.id}/edit").content

    person = make_person(may=HELP_DESK)
    page = PlainBrowser(Console(person)).open("/console/home/locked-out")
    assert f"/console/call/{ada}" in page.content
    page.open("/console/").press("Find", q="55508642")
    assert page.address == f"/console/call/{ada}"
    for words in ("What is your number? 4711", "Who is your boss?", "No The account is locked out."):
        assert words in page.text
    assert page.press("Unlock").status == 400, "nobody is mended who is not identified"
    assert "the caller is not identified" in page.text
    assert directory.text(ada, "lockoutTime") != "0"
    page.press("Unlock", answered="on", ticket="INC 12")
    assert directory.text(ada, "lockoutTime") == "0"
    assert "Unlock" not in page.buttons
    record = OperationRecord.objects.get(operation="users.unlock", outcome="succeeded")
    assert record.reason == "INC 12 The caller is identified. The account is locked out."

    page.press("Give a new password")  # what was ticked and typed is there still
    assert "Spell it on the telephone" in page.text
    note = page.text.partition("For the ticket")[2]
    assert "Unlock Ada Lovelace. INC 12 The caller is identified. The account is locked out." in note
    assert "Reset the password of Ada Lovelace" in note
    page.open(page.address)
    assert "Spell it" not in page.text, "it is shown this once"

    assert "Nobody has this name" in page.open("/console/call/?q=Nobody+Whoever").text
    assert page.open(f"/console/call/{UUID(int=1)}").status == 404
    reader = PlainBrowser(Console(make_person(may=["directory.read_object"]))).open(f"/console/call/{ada}")
    assert "Give a new password" not in reader.buttons
