"""What is done with an object on its pages without scripts: shown before, done with a reason, told of afterwards."""

import re
from uuid import UUID

import pytest

from audit.models import OperationRecord
from directory.models import DirectoryConnection
from keys.permission_catalogue import PRESETS
from lab.directory import PASSWORD, Directory
from tests.console.conftest import Visitor
from tests.console.plain_browser import PlainBrowser
from tests.support.cast import Console, make_person
from tests.support.descriptors import add_entries

pytestmark = pytest.mark.django_db

OBJECTS = "/console/directory/objects"


def test_it_works(administrator: PlainBrowser, directory: Directory, organizational_unit: str) -> None:
    user = directory.add_user("Ada Lovelace", parent=organizational_unit, password=PASSWORD)
    page = administrator.open(f"{OBJECTS}/{user}/disable")
    for text in ("Disable Ada Lovelace?", "Destructive", "ACCOUNTDISABLE"):
        assert text in page.text
    assert directory.is_enabled(user)
    page = page.press("Disable", reason="On leave")
    assert page.address == f"{OBJECTS}/{user}"
    assert "Ada Lovelace is disabled. See its log record." in page.text
    assert not directory.is_enabled(user)
    record = OperationRecord.objects.get(operation="users.disable")
    assert (record.outcome, record.reason, record.owner) == ("succeeded", "On leave", record.owner)
    page = page.open(f"{OBJECTS}/{user}/disable")
    assert "Nothing would change" in page.text
    page = page.open(f"{OBJECTS}/{user}/enable").press("Enable")
    assert "Ada Lovelace is enabled." in page.text
    assert directory.is_enabled(user)


def test_the_help_desk_undoes_what_it_did_without_reading_the_log(
    connection: DirectoryConnection, directory: Directory, organizational_unit: str
) -> None:
    user = directory.add_user("Ada Lovelace", parent=organizational_unit, password=PASSWORD)
    preset = next(each for each in PRESETS if each.name == "help-desk")
    desk = PlainBrowser(Console(make_person(may=sorted(preset.permissions))))
    desk.open(f"{OBJECTS}/{user}/disable").press("Disable")
    (undo,) = re.findall(r'<a href="(/console/directory/changes/[^"]+)">Undo</a>', desk.content)
    assert "See its log record" not in desk.text
    other = PlainBrowser(Console(make_person(may=sorted(preset.permissions))))
    assert other.open(undo).status == 404
    desk.open(undo).press("Undo")
    assert (desk.address, "The change is undone." in desk.text) == (f"{OBJECTS}/{user}", True)
    assert directory.is_enabled(user)
    assert desk.open(undo).press("Undo").status == 409


def test_a_computer_is_disabled_too(
    administrator: PlainBrowser, directory: Directory, organizational_unit: str
) -> None:
    computer = directory.add_computer(parent=organizational_unit)
    administrator.open(f"{OBJECTS}/{computer}/disable").press("Disable")
    assert not directory.is_enabled(computer)


def test_unlock(visitor: Visitor, directory: Directory, organizational_unit: str) -> None:
    user = directory.add_user(parent=organizational_unit, password=PASSWORD)
    directory.lock_out(user)
    page = visitor("directory.unlock_account").open(f"{OBJECTS}/{user}/unlock").press("Unlock")
    assert "is unlocked." in page.text
    assert "log record" not in page.text  # who may not read the log gets no link to it
    assert directory.can_sign_in(user, PASSWORD)


def test_a_reason_that_cannot_be_kept_is_refused(administrator: PlainBrowser, directory: Directory, ada: UUID) -> None:
    page = administrator.open(f"{OBJECTS}/{ada}/disable").press("Disable", reason="x" * 501)
    assert page.status == 400
    assert 'id="reason-error"' in page.content
    assert dict(page.forms[-1].fields)["reason"] == "x" * 501
    assert directory.is_enabled(ada)


def test_move(administrator: PlainBrowser, directory: Directory, ada: UUID, organizational_unit: str) -> None:
    below = directory.add_unit("Below", parent=organizational_unit)
    page = administrator.open(f"{OBJECTS}/{ada}/move")
    assert page.press("Preview", parent="OU=nowhere").status == 404
    assert page.press("Preview", parent="nonsense").status == 400
    assert 'id="parent-error"' in page.content
    page = page.press("Preview", parent=below)
    assert f"CN=Ada Lovelace,{below}" in page.text
    assert "Ada Lovelace is moved." in page.press("Move").text
    assert directory.dn(ada) == f"CN=Ada Lovelace,{below}"
    page.open(f"{OBJECTS}/{ada}/move").press("Preview", parent=str(directory.guid(organizational_unit))).press("Move")
    assert directory.dn(ada) == f"CN=Ada Lovelace,{organizational_unit}"


def test_rename(administrator: PlainBrowser, directory: Directory, ada: UUID, organizational_unit: str) -> None:
    directory.add_user("Taken", parent=organizational_unit)
    page = administrator.open(f"{OBJECTS}/{ada}/rename")
    assert page.press("Preview", name="Taken").status == 409
    assert page.press("Preview", name="x" * 65).status == 400
    assert 'id="name-error"' in page.content
    page = page.press("Preview", name="Ada King")
    assert "sAMAccountName, userPrincipalName and displayName stay" in page.text
    assert dict(page.press("Change something").forms[-1].fields)["name"] == "Ada King"
    page = page.press("Preview", name="Ada King").press("Rename")
    assert "Ada Lovelace is now called Ada King." in page.text
    assert directory.text(ada, "cn") == "Ada King"


def test_delete(administrator: PlainBrowser, directory: Directory, ada: UUID, organizational_unit: str) -> None:
    page = administrator.open(f"{OBJECTS}/{ada}/delete")
    assert "agreed" not in page.content
    page = page.press("Delete", reason="Left")
    assert page.address == f"{OBJECTS}/{directory.guid(organizational_unit)}"
    assert "Ada Lovelace is deleted." in page.text
    assert not directory.exists(ada)


def test_a_full_unit_is_deleted_with_consent_only(
    administrator: PlainBrowser, directory: Directory, organizational_unit: str
) -> None:
    unit = directory.add_unit("Full", parent=organizational_unit)
    guid = directory.guid(unit)
    for _ in range(2):
        directory.add_user(parent=unit)
    directory.add_group(parent=unit)
    page = administrator.open(f"{OBJECTS}/{guid}/delete")
    assert "3 objects below it are deleted too: 2 users, 1 group." in page.text
    consent = "Delete all 3 objects below it too"
    assert consent in page.text
    page = page.press("Delete")
    assert page.status == 400
    assert "Has to be agreed to" in page.text
    directory.add_user(parent=unit)
    page = page.press("Delete", agreed=consent)  # to what is not true any more
    assert page.status == 400
    assert "Delete all 4 objects below it too" in page.text
    assert directory.exists(guid)
    page = page.press("Delete", agreed="Delete all 4 objects below it too")
    assert "Full is deleted." in page.text
    assert not directory.exists(guid)


def test_deletion_protection_is_told(
    administrator: PlainBrowser, directory: Directory, organizational_unit: str
) -> None:
    unit = directory.add_unit("Kept", parent=organizational_unit)
    guid, before = directory.guid(unit), directory.descriptor(unit)
    add_entries(directory, unit, "(D;;DTSD;;;WD)", domain_sid="S-1-5-21-1-2-3")
    page = administrator.open(f"{OBJECTS}/{guid}/delete")
    assert page.status == 409
    assert "is protected from accidental deletion" in page.text
    assert "Delete" not in page.buttons
    directory.set_access_control(unit, before)


def test_a_generated_password_is_shown_once(
    administrator: PlainBrowser, directory: Directory, organizational_unit: str
) -> None:
    user = directory.add_user("Ada Lovelace", parent=organizational_unit, password=PASSWORD)
    page = administrator.open(f"{OBJECTS}/{user}/reset-password")
    assert "Security" in page.text
    page = page.press("Reset the password", reason="Forgotten", mustChange=None)
    assert "The password of Ada Lovelace is reset. See its log record." in page.text
    generated = page.content.partition('id="generated-password"')[2].partition('value="')[2].partition('"')[0]
    assert directory.can_sign_in(user, generated.replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">"))
    record = OperationRecord.objects.get(operation="users.reset-password")
    assert generated not in str(record.changes)
    assert generated not in page.open(f"{OBJECTS}/{user}").content


def test_a_first_password_is_spelled(
    administrator: PlainBrowser, directory: Directory, organizational_unit: str
) -> None:
    user = directory.add_user("Ada Lovelace", parent=organizational_unit, password=PASSWORD)
    page = administrator.open(f"{OBJECTS}/{user}/reset-password").press("Reset the password", reason="Forgotten")
    generated = page.content.partition('id="generated-password"')[2].partition('value="')[2].partition('"')[0]
    assert re.fullmatch(r"(?:[A-Z][a-z]{3}-){4}\d{4}", generated)
    said = re.findall("<li><b>(.)</b> ([^<]+)</li>", page.content)
    assert "".join(character for character, _ in said) == generated
    assert said[0][1].startswith(f"capital {generated[0]}")


def test_a_given_password_is_checked_and_never_shown(
    administrator: PlainBrowser, directory: Directory, organizational_unit: str
) -> None:
    user = directory.add_user("Ada Lovelace", parent=organizational_unit, password=PASSWORD)
    page = administrator.open(f"{OBJECTS}/{user}/reset-password")
    page = page.press("Reset the password", how="given", newPassword="short")
    assert page.status == 422
    assert 'id="newPassword-error"' in page.content
    assert "short" not in page.content.partition('id="newPassword"')[2].partition(">")[0]
    page = page.press("Reset the password", how="given", newPassword="Better-Horse-9", mustChange=None)
    assert page.address == f"{OBJECTS}/{user}"
    assert "is reset." in page.text
    assert "Better-Horse-9" not in page.content
    assert directory.can_sign_in(user, "Better-Horse-9")


def test_options_of_a_reset_say_what_they_mean(
    administrator: PlainBrowser, directory: Directory, organizational_unit: str
) -> None:
    user = directory.add_user(parent=organizational_unit, password=PASSWORD)
    directory.lock_out(user)
    address = f"{OBJECTS}/{user}/reset-password"
    assert "does not unlock it" not in administrator.open(address).text  # unlocking is proposed
    assert "does not unlock it" in administrator.open(f"{address}?asked=1").text
    administrator.open(address).press("Reset the password", how="given", newPassword="Better-Horse-9", mustChange=None)
    assert directory.can_sign_in(user, "Better-Horse-9")


@pytest.mark.usefixtures("limited")
def test_resets_are_limited(administrator: PlainBrowser, directory: Directory, organizational_unit: str) -> None:
    user = directory.add_user(parent=organizational_unit, password=PASSWORD)
    page = administrator.open(f"{OBJECTS}/{user}/reset-password")
    statuses = [page.press("Reset the password", how="given", newPassword="x").status for _ in range(5)]
    assert statuses == [422] * 5
    assert page.press("Reset the password").status == 429


def test_a_person_without_the_permission_is_refused(visitor: Visitor, directory: Directory, ada: UUID) -> None:
    page = visitor("directory.update_user").open(f"{OBJECTS}/{ada}/disable")
    assert page.status == 403
    assert "Disable" not in page.buttons
    assert directory.is_enabled(ada)
