"""Editing an object on a page without scripts: only what was changed is written, and nobody is overwritten."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from active_directory import datetime_to_filetime
from audit.models import OperationRecord
from lab.directory import Directory
from tests.console.conftest import Visitor
from tests.console.plain_browser import PlainBrowser

pytestmark = pytest.mark.django_db


def edit(target: UUID) -> str:
    return f"/console/directory/objects/{target}/edit"


def test_it_works(administrator: PlainBrowser, directory: Directory, ada: UUID) -> None:
    page = administrator.open(edit(ada))
    assert page.status == 200
    page = page.press("Preview", attributes__title="Countess", attributes__sn="", attributes__mobile="+44 20 7946 0001")
    assert page.status == 200, page.text
    assert directory.text(ada, "title") == "Analyst"  # it is a preview
    for text in ("Save the changes of Ada Lovelace?", "Analyst", "Countess", "Ordinary", "+44 20 7946 0001"):
        assert text in page.text
    page = page.press("Save", reason="Ticket 4711")
    assert page.address == f"/console/directory/objects/{ada}"
    assert "The changes of Ada Lovelace are saved. See its log record." in page.text
    assert directory.text(ada, "title") == "Countess"
    assert directory.text(ada, "mobile") == "+44 20 7946 0001"
    assert directory.text(ada, "sn") is None
    record = OperationRecord.objects.get(operation="users.update")
    assert (record.outcome, record.reason) == ("succeeded", "Ticket 4711")
    assert {change["attribute"] for change in record.changes} == {"title", "sn", "mobile"}
    assert f"/console/log/{record.id}" in page.content


def test_what_is_not_touched_is_not_written(administrator: PlainBrowser, directory: Directory, ada: UUID) -> None:
    directory.modify(
        ada,
        description=" with spaces ",
        proxyAddresses=["SMTP:ada@corp.example.test", "smtp:a@corp.example.test"],
        streetAddress="12 Dorset Street\nMarylebone",
        accountExpires="134000000001234567",
    )
    page = administrator.open(edit(ada)).press("Preview")
    assert "Nothing would change" in page.text
    assert "Save" not in page.buttons
    page = page.press("Change something").press("Preview", attributes__streetAddress="1 Street\r\nLondon")
    page.press("Save")
    assert directory.text(ada, "streetAddress") == "1 Street\r\nLondon"
    assert directory.text(ada, "accountExpires") == "134000000001234567"
    assert directory.text(ada, "description") == " with spaces "


def test_the_way_back_keeps_what_was_typed(administrator: PlainBrowser, ada: UUID) -> None:
    page = administrator.open(edit(ada)).press("Preview", attributes__title='"Countess" <of> Lovelace')
    page = page.press("Change something")
    assert page.status == 200
    assert dict(page.forms[-1].fields)["attributes.title"] == '"Countess" <of> Lovelace'


def test_somebody_else_was_faster(administrator: PlainBrowser, directory: Directory, ada: UUID) -> None:
    page = administrator.open(edit(ada)).press("Preview", attributes__title="Countess")
    directory.modify(ada, title="Baroness", department="Engines")
    page = page.press("Save", reason="Ticket 4711")
    assert page.status == 412
    assert directory.text(ada, "title") == "Baroness"
    for text in ("Somebody has changed this object since you opened it", "Job title Analyst Baroness", "Engines"):
        assert text in page.text
    assert OperationRecord.objects.filter(outcome="succeeded").count() == 0
    page = page.press("Save")
    assert page.status == 200
    assert "are saved" in page.text
    assert directory.text(ada, "title") == "Countess"
    assert directory.text(ada, "department") == "Engines"  # what the other wrote is kept
    assert OperationRecord.objects.get(outcome="succeeded").reason == "Ticket 4711"


def test_a_change_elsewhere_is_told_too(administrator: PlainBrowser, directory: Directory, ada: UUID) -> None:
    page = administrator.open(edit(ada))
    directory.modify(ada, otherTelephone="1")
    page = page.press("Preview", attributes__title="Countess")
    assert page.status == 412
    assert "Nothing that the form shows." in page.text
    assert "Countess" in page.text


def test_a_refusal_is_beside_its_field(administrator: PlainBrowser, directory: Directory, ada: UUID) -> None:
    page = administrator.open(edit(ada)).press(
        "Preview", attributes__mail="x" * 300, attributes__manager="Nobody", account__expiresAt="tomorrow"
    )
    assert page.status == 400
    assert 'id="account.expiresAt-error"' in page.content
    page = page.press("Preview", account__expiresAt="")
    assert page.status == 400
    assert 'id="attributes.manager-error"' in page.content or 'id="attributes.mail-error"' in page.content
    assert dict(page.forms[-1].fields)["attributes.mail"] == "x" * 300
    assert directory.text(ada, "mail") is None


def test_options_of_the_account(administrator: PlainBrowser, directory: Directory, ada: UUID) -> None:
    page = administrator.open(edit(ada)).press(
        "Preview", account__expiresAt="2031-02-03T04:05", account__passwordNeverExpires="on"
    )
    assert "Security" in page.text  # its risk
    page.press("Save")
    moment = datetime(2031, 2, 3, 4, 5, tzinfo=UTC)
    assert directory.text(ada, "accountExpires") == str(datetime_to_filetime(moment))
    assert int(directory.text(ada, "userAccountControl") or 0) & 0x10000
    page = administrator.open(edit(ada))
    fields = dict(page.forms[-1].fields)
    assert fields["account.expiresAt"] == "2031-02-03T04:05"
    page.press("Preview", account__expiresAt="", account__passwordNeverExpires=None).press("Save")
    assert not int(directory.text(ada, "userAccountControl") or 0) & 0x10000
    assert dict(administrator.open(edit(ada)).forms[-1].fields)["account.expiresAt"] == ""


def test_scope_and_type_of_a_group(administrator: PlainBrowser, directory: Directory, organizational_unit: str) -> None:
    group = directory.add_group("Analysts", parent=organizational_unit)
    page = administrator.open(edit(group)).press("Preview", group__scope="universal", attributes__description="All")
    assert "it changes the scope or type of the group" in page.text.lower()
    page.press("Save")
    assert int(directory.text(group, "groupType") or 0) & 0xF == 8
    assert directory.text(group, "description") == "All"


def test_another_attribute(administrator: PlainBrowser, directory: Directory, ada: UUID) -> None:
    directory.modify(ada, otherTelephone=["1", "2"])
    page = administrator.open(edit(ada)).press(
        "One more", other__name="otherTelephone", other__how="add", other__values="3\r\n4"
    )
    assert page.text.count("What to do") == 2
    page = page.press(
        "Preview",
        other__name=["otherTelephone", "otherTelephone", "carLicense"],
        other__how=["add", "remove", "replace"],
        other__values=["3\r\n4", "1", "AL 1815"],
    )
    assert page.status == 200, page.text
    page.press("Save")
    assert sorted(directory.read(ada)["otherTelephone"]) == [b"2", b"3", b"4"]
    assert directory.text(ada, "carLicense") == "AL 1815"
    page = administrator.open(edit(ada)).press("Preview", other__name="carLicense", other__how="clear").press("Save")
    assert directory.text(ada, "carLicense") is None


def test_an_attribute_is_not_written_in_two_places(administrator: PlainBrowser, ada: UUID) -> None:
    page = administrator.open(edit(ada)).press(
        "Preview", attributes__title="Countess", other__name="TITLE", other__how="replace", other__values="Baroness"
    )
    assert page.status == 400
    assert "TITLE is written in two places of this form" in page.text
    page = page.press("Preview", other__name="", other__values="without a name")
    assert page.status == 400
    assert "The directory has no attribute" in page.text


def test_a_protected_object_is_refused(visitor: Visitor, directory: Directory, organizational_unit: str) -> None:
    user = directory.add_user(parent=organizational_unit, adminCount="1")
    page = visitor("directory.update_user").open(edit(user))
    assert "needs the permission to manage protected objects" in page.text
    assert page.press("Preview", attributes__title="Countess").status == 403


def test_suggestions(visitor: Visitor, directory: Directory, ada: UUID) -> None:
    page = visitor()
    names = page.open("/console/directory/objects/attribute-names?other.name=OTHERtel").content
    assert '<option value="otherTelephone">' in names
    assert "option" not in page.open("/console/directory/objects/attribute-names?other.name=memberO").content
    found = page.open("/console/directory/objects/suggestions?kind=users&q=Ada Love")
    assert f'data-value="{directory.dn(ada)}"' in found.content
    assert "Ada Lovelace" in found.text
    for query in ("kind=groups&q=Ada Love", "q=A", ""):
        assert "data-value" not in page.open(f"/console/directory/objects/suggestions?{query}").content
