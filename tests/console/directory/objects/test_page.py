"""The page of a directory object: what is told of it, and to whom what is offered."""

from uuid import UUID, uuid4

import pytest

from active_directory import sid_to_text
from approvals.models import ChangeRequest
from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from gateway import pipeline
from lab.directory import Directory, filetime, random_name
from tests.console.conftest import Visitor
from tests.console.plain_browser import PlainBrowser
from tests.support.cast import Console, make_integration, make_person
from tests.support.descriptors import add_entries

pytestmark = pytest.mark.django_db

ACTIONS = ("Edit", "Disable", "Reset password", "Move", "Rename", "Delete")
OBJECTS = "/console/directory/objects"


def test_it_works(administrator: PlainBrowser, ada: UUID, directory: Directory, organizational_unit: str) -> None:
    boss = directory.add_user("Charles Babbage", parent=organizational_unit)
    directory.modify(ada, manager=directory.dn(boss), streetAddress="12 Dorset Street\r\nMarylebone")
    page = administrator.open(f"{OBJECTS}/{ada}")
    assert page.status == 200
    for text in ("Ada Lovelace", "Enabled", "Job title Analyst", "Charles Babbage", "12 Dorset Street", str(ada)):
        assert text in page.text
    place = organizational_unit.partition(",")[0].removeprefix("OU=")
    assert f"corp.example.test{place}" in page.text.replace(" ", "")
    for label in ACTIONS:
        assert f">{label}</a>" in page.content
    manager = administrator.open(f"{OBJECTS}/by-dn?dn={directory.dn(boss)}")
    assert manager.address == f"{OBJECTS}/{boss}"
    assert manager.status == 200


def test_only_what_the_person_may_do_is_offered(visitor: Visitor, ada: UUID) -> None:
    page = visitor().open(f"{OBJECTS}/{ada}")
    assert page.status == 200
    for label in (*ACTIONS, "Access control", "History"):
        assert f">{label}</a>" not in page.content
    of_actions = ("edit", "disable", "rename", "move", "delete", "reset-password", "groups/join")
    for address in (*of_actions, "access-control", "history"):
        assert visitor().open(f"{OBJECTS}/{ada}/{address}").status == 403, address
    helpdesk = visitor("directory.reset_password", "directory.unlock_account").open(f"{OBJECTS}/{ada}")
    assert [label for label in ACTIONS if f">{label}</a>" in helpdesk.content] == ["Reset password"]


def test_what_is_wrong_with_an_account_is_told_at_once(
    administrator: PlainBrowser, directory: Directory, organizational_unit: str
) -> None:
    user = directory.add_user(
        parent=organizational_unit, enabled=False, accountExpires=filetime(-86400), pwdLastSet="0"
    )
    text = administrator.open(f"{OBJECTS}/{user}").text
    for badge in ("Disabled", "Account expired", "Must change password"):
        assert badge in text
    assert "Locked out" not in text
    locked = directory.add_user(parent=organizational_unit, password="Correct-Horse-9")
    directory.lock_out(locked)
    page = administrator.open(f"{OBJECTS}/{locked}")
    assert "Locked out" in page.text
    assert ">Unlock</a>" in page.content


def test_what_waits_for_approval_is_told_with_a_link(
    visitor: Visitor, administrator: PlainBrowser, connection: DirectoryConnection, ada: UUID
) -> None:
    key = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    answer = key.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}})
    assert answer.status == 202
    page = administrator.open(f"{OBJECTS}/{ada}")
    assert (
        f"Waits for approval: Change job title of Ada Lovelace, asked just now by {key.key.owner.username}" in page.text
    )
    assert page.open(f"/console/changes/{answer.body['changeRequest']['id']}").status == 200
    assert "Waits for approval" not in visitor().open(f"{OBJECTS}/{ada}").text  # neither theirs nor to decide


def test_a_protected_object_says_who_may_change_it(
    visitor: Visitor, administrator: PlainBrowser, directory: Directory
) -> None:
    admins = directory.guid(f"CN=Domain Admins,CN=Users,{directory.base_dn}")
    page = visitor("directory.update_group", "directory.manage_membership").open(f"{OBJECTS}/{admins}")
    assert "needs the permission to manage protected objects" in page.text
    assert ">Edit</a>" not in page.content
    assert "Add members" not in page.open(f"{OBJECTS}/{admins}/members").text
    page = administrator.open(f"{OBJECTS}/{admins}")
    assert "needs the permission to manage protected objects" not in page.text
    assert ">Edit</a>" in page.content


def test_all_attributes_are_readable(
    visitor: Visitor, directory: Directory, ada: UUID, organizational_unit: str
) -> None:
    boss = directory.add_user("Charles Babbage", parent=organizational_unit)
    directory.modify(
        ada,
        thumbnailPhoto=b"\xff\xd8" * 50,
        manager=directory.dn(boss),
        accountExpires=filetime(86400 * 10.2),
        description="2026-01-01T00:00:00Z",
    )
    page = visitor().open(f"{OBJECTS}/{ada}/attributes")
    assert page.status == 200
    assert "100 bytes" in page.text
    assert "/9j/2P/Y" in page.text  # folded
    assert "(in 10 days)" in page.text
    assert "PASSWD_NOTREQD" in page.text
    assert "lastLogon never" in page.text
    assert "description 2026-01-01T00:00:00Z" in page.text  # a text, whatever it looks like
    assert "CN=Charles Babbage" in page.text
    assert "unicodePwd" not in page.text


def test_access_control_in_words(
    visitor: Visitor, directory: Directory, ada: UUID, organizational_unit: str, domain_sid: str
) -> None:
    group = directory.add_group("Helpdesk", parent=organizational_unit)
    sid, before = sid_of(directory, group), directory.descriptor(organizational_unit)
    reset = "00299570-246d-11d0-a768-00aa006e0529"
    user, title = "bf967aba-0de6-11d0-a285-00aa003049e2", "bf967a55-0de6-11d0-a285-00aa003049e2"
    add_entries(
        directory,
        organizational_unit,
        f"(OA;CIIO;CR;{reset};{user};{sid})",
        f"(OA;CIIO;RPWP;{title};{user};{sid})",
        f"(OA;;CCDC;{user};;{sid})",
        "(D;;DTSD;;;WD)",
        domain_sid=domain_sid,
    )
    page = visitor("directory.read_acl")
    unit = directory.guid(organizational_unit)
    text = page.open(f"{OBJECTS}/{unit}/access-control").text
    for words in (
        "User Force Change Password",
        "Read and write title",
        "user objects below",
        "Create and delete user objects in it",
        "an entry denies everyone to delete it",
        "D:",  # in SDDL
    ):
        assert words in text
    assert "Deletion-protected" in page.open(f"{OBJECTS}/{unit}/deletion-protection").text
    assert "Deletion-protected" not in page.open(f"{OBJECTS}/{ada}/deletion-protection").text
    text = page.open(f"{OBJECTS}/{unit}/delegations").text
    assert "Helpdesk Reset password this unit" in text
    below = directory.guid(directory.add_unit("Below", parent=organizational_unit))
    assert "Nothing is delegated here." in page.open(f"{OBJECTS}/{below}/delegations").text
    assert "Reset password" in page.open(f"{OBJECTS}/{below}/delegations?inherited=true").text
    directory.set_access_control(organizational_unit, before)  # so that it can be removed


def test_the_history_leads_to_its_records_and_to_reverting_them(
    administrator: PlainBrowser, visitor: Visitor, directory: Directory, ada: UUID
) -> None:
    page = administrator.open(f"{OBJECTS}/{ada}/history")
    assert "Nothing was done with this object through the gateway." in page.text
    page = page.open(f"{OBJECTS}/{ada}/rename").press("Preview", name="Ada King").press("Rename", reason="Married")
    assert "Ada Lovelace is now called Ada King." in page.text
    page = page.open(f"{OBJECTS}/{ada}/history")
    for text in ("Rename Ada Lovelace", "Married", "Succeeded", "Undo"):
        assert text in page.text
    record = page.content.partition('/revert"')[0].rpartition("/")[2]
    page = page.open(f"/console/log/{record}/revert")
    assert page.status == 200
    page.press("Undo it")
    assert directory.text(ada, "cn") == "Ada Lovelace"
    page = visitor("audit.read_log").open(f"{OBJECTS}/{ada}/history")
    assert "Rename" in page.text
    assert "/revert" not in page.content


def test_the_timeline_tells_how_it_was_and_puts_it_back(
    administrator: PlainBrowser, visitor: Visitor, connection: DirectoryConnection, directory: Directory, ada: UUID
) -> None:
    """Also what the log cannot know: a change outside the gateway is said, and no state claims to be complete."""
    assert "knows no change" in administrator.open(f"{OBJECTS}/{ada}/timeline").text
    key, path = make_integration(connection), f"/api/ad/users/{ada}"
    for body in ({"title": ["Countess"]}, {"title": ["Baroness"], "department": ["Sums"]}):
        assert key.patch(path, {"replace": body}).status == 200
    assert key.post(f"{path}/disable").status == 200
    directory.modify(ada, department="Engines")
    page = administrator.open(f"{OBJECTS}/{ada}/timeline")
    assert "3 changes" in page.text
    assert "department has changed outside the gateway since" in page.text
    page.press("Show", at="1")
    assert "After “" in page.text
    assert "approved by" not in page.text
    for words in ("Then Now", "title Countess Baroness", "userAccountControl", "Engines"):
        assert words in page.text
    between = PlainBrowser(Console(make_person(superuser=True))).open(f"{page.address}&with=2")
    assert "department — Sums title Countess Baroness" in between.text
    assert "Put it back" not in between.text
    assert "title Analyst" in page.open(f"{OBJECTS}/{ada}/timeline?time=2001-01-01T10:00").text
    page.open(f"{OBJECTS}/{ada}/timeline?at=1").press("Put it back as it was then…").press("Put back", reason="Again")
    assert "is put back" in page.text
    assert (directory.text(ada, "title"), directory.text(ada, "department")) == ("Countess", None)
    assert directory.is_enabled(ada)
    assert "4 changes" in page.open(f"{OBJECTS}/{ada}/timeline").text

    group = directory.add_group(parent=directory.dn(ada).partition(",")[2], members=[ada])
    bea = directory.add_user("Bea Example", parent=directory.dn(ada).partition(",")[2])
    assert key.post(f"/api/ad/groups/{group}/members", {"add": [str(bea)], "remove": [str(ada)]}).status == 200
    page.open(f"{OBJECTS}/{group}/timeline?at=0").press("Put it back as it was then…").press("Put back")
    assert directory.text(group, "member") == directory.dn(ada)

    assert page.open(f"{OBJECTS}/{ada}/timeline?at=99").status == 404
    assert "Put it back" not in visitor("audit.read_log").open(f"{OBJECTS}/{ada}/timeline?at=0").text


def test_timeline_and_evidence_tell_who_approved(
    administrator: PlainBrowser, connection: DirectoryConnection, ada: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.redis.broker.current_app.send_task", lambda *_, **__: None)
    key = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    held = key.patch(f"/api/ad/users/{ada}", {"replace": {"title": ["Countess"]}}).body["changeRequest"]["id"]
    digest = {"digest": ChangeRequest.objects.get(id=held).digest}
    approver = Console(make_person("grace", superuser=True))
    assert approver.post(f"/rest/change-requests/{held}/approve", digest).status == 200
    pipeline.apply_change_request(UUID(held))
    page = administrator.open(f"{OBJECTS}/{ada}/timeline?at=1")
    assert "(approved by grace)" in page.text
    assert "approved by grace" in administrator.open(f"/console/log/evidence?target={ada}").text


def test_what_is_gone_is_told_with_what_the_log_knows(administrator: PlainBrowser, visitor: Visitor, ada: UUID) -> None:
    assert administrator.open(f"{OBJECTS}/{uuid4()}").status == 404
    administrator.open(f"{OBJECTS}/{ada}/delete").press("Delete")
    page = administrator.open(f"{OBJECTS}/{ada}")
    assert page.status == 404
    assert "not in the directory any more" in page.text
    assert "Delete the user Ada Lovelace" in page.text
    page = visitor().open(f"{OBJECTS}/{ada}")
    assert page.status == 404
    assert "Ada" not in page.text


def test_names_with_special_characters_are_led_to(
    administrator: PlainBrowser, directory: Directory, organizational_unit: str
) -> None:
    unit = directory.add_unit('R&D, "new" + #1', parent=organizational_unit)
    user = directory.add_user("Zoë <b>", parent=unit, sAMAccountName=random_name("z"))
    page = administrator.open(f"{OBJECTS}/{user}")
    assert "Zoë <b>" in page.text
    link = page.content.rpartition("</a></li></ol>")[0].rpartition('href="')[2].partition('"')[0]
    assert page.open(link.replace("&amp;", "&")).address == f"{OBJECTS}/{directory.guid(unit)}"


@pytest.fixture
def domain_sid(directory: Directory) -> str:
    return sid_of(directory, directory.base_dn)


def sid_of(directory: Directory, target: UUID | str) -> str:
    return sid_to_text(directory.read(target, "objectSid")["objectSid"][0])
