"""Names with characters that nobody sees: they are security changes, and messages mark them."""

import ast
import unicodedata
from uuid import uuid4

import pytest

from approvals.messages import in_one_line
from approvals.models import Audience
from approvals.review.notifications import render_email
from approvals.supervision import risk_of
from audit.models import EndpointFormat
from audit.webhooks.events import ChatMessage, body_of
from core.operation import Risk, find_operation
from core.text.invisible import has_invisible, is_invisible
from core.text.names import label_complaint
from directory.shapes.proposal import AttributeChange, Target
from lab.commands import PROJECT
from tests.approvals.proposals import hold, make_proposal
from tests.support.house import sources

DECEIVING = (
    *"\u00a0\u00ad\u034f\u061c\u115f\u1160\u180e\u200b\u200d\u200e\u200f\u2028\u202a\u202e\u2060\u2066\u2069\u2800",
    *"\u3000\u3164\ufe0f\ufeff\uffa0\U000e0041\U000e0100",
)
ORDINARY_NAMES = ("Ada Lovelace", "Ада", "עדה", "عائشة", "阿達", "Zoë O’Hara", "ကျော်")
NAMES = ("distinguishedName", "sAMAccountName", "userPrincipalName", "displayName", "mail")


def risk_and_reasons(change: AttributeChange, **fields: object) -> tuple[Risk, tuple[str, ...]]:
    found = risk_of(
        find_operation("users.update"),
        make_proposal(change, **fields),
        is_confidential=lambda _: False,
        protection_reason=lambda: None,
        look_alikes=tuple,
    )
    return found.risk, found.reasons


@pytest.mark.parametrize("attribute", NAMES)
@pytest.mark.parametrize("character", DECEIVING, ids=lambda character: f"U+{ord(character):04X}")
def test_a_name_with_an_unseen_character_is_a_security_change_in_words(attribute: str, character: str) -> None:
    code_point = f"U+{ord(character):04X}"
    risk, reasons = risk_and_reasons(AttributeChange(attribute, ("Ada",), (f"A{character}da",)))
    assert risk is Risk.SECURITY
    assert any(code_point in reason and attribute in reason for reason in reasons)
    assert not any(is_invisible(each) for reason in reasons for each in reason)
    assert in_one_line(f"A{character}da") == f"A⟨{code_point}⟩da"


def test_every_format_character_is_unseen() -> None:
    every = [chr(code) for code in range(0x110000)]
    assert all(map(is_invisible, (each for each in every if unicodedata.category(each) == "Cf")))
    assert [each for each in every if has_invisible(each) != is_invisible(each)] == []


@pytest.mark.parametrize("name", ORDINARY_NAMES)
def test_names_in_any_script_are_ordinary(name: str) -> None:
    assert risk_and_reasons(AttributeChange("displayName", (), (name,))) == (Risk.ORDINARY, ())
    assert in_one_line(name) == name


def test_a_new_reference_to_such_a_name_is_told_and_leaving_one_is_not() -> None:
    twin = "CN=A\u200bda,DC=corp"
    identities = {twin: uuid4()}
    risk, (reason,) = risk_and_reasons(AttributeChange("manager", (), (twin,)), identities=identities)
    assert risk is Risk.SECURITY
    assert "refers to a name with characters that nobody sees, in manager: U+200B" in reason
    assert risk_and_reasons(AttributeChange("manager", (twin,), ()), identities=identities)[0] is Risk.ORDINARY
    assert risk_and_reasons(AttributeChange("description", (), ("a\u200b",)))[0] is Risk.ORDINARY


@pytest.mark.parametrize("name", ["می\u200cخواهم", "خانه\u200cها", "क्\u200dष", "ക്\u200c", "بِ\u200cم"])
def test_joiners_are_ordinary_where_a_script_is_spelled_with_them(name: str) -> None:
    assert in_one_line(name) == name
    assert label_complaint(name) is None


@pytest.mark.parametrize(
    "name", ["a\u200cb", "א\u200cב", "دا\u200cم", "م\u200c", "\u200cم", "م\u200dم", "ک\u200c\u200cم"]
)
def test_joiners_are_unseen_elsewhere(name: str) -> None:
    assert "U+200" in in_one_line(name)
    assert label_complaint(name) is not None


def test_mail_and_chat_isolate_directions_and_mark_what_nobody_sees(db: None) -> None:
    target = Target(
        id=uuid4(), kind="user", distinguished_name="CN=עדה כהן,OU=A\u202eb,DC=corp", account_name="a\u200bb"
    )
    request = hold(target=target)
    sent = render_email(Audience.APPROVER, "grace@example.test", [request])
    for text in (str(sent.subject), str(sent.body)):
        assert "\u2068עדה כהן\u2069" in text
        assert not any(is_invisible(each) for each in text if each not in "\n\u2068\u2069")
    assert "a⟨U+200B⟩b" in sent.body
    for format in (EndpointFormat.SLACK, EndpointFormat.TEAMS):
        body = body_of(format, ChatMessage("עדה כהן asks", (("By", "x\u202ey"),)))
        assert "\u2068עדה כהן\u2069 asks" in body
        assert "x⟨U+202E⟩y" in body


def test_mail_and_messages_leave_at_one_place_each() -> None:
    """What makes them passes `text_for_people` there, whoever asks for it."""
    senders = {"EmailMessage", "EmailMultiAlternatives", "send_mail", "send_mass_mail", "mail_admins", "mail_managers"}
    found: dict[str, set[str]] = {"mail": set(), "chat": set()}
    for path in sources():
        called = (node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
        names = {getattr(function, "id", None) or getattr(function, "attr", "") for function in called}
        place = str(path.relative_to(PROJECT))
        if names & senders:
            found["mail"].add(place)
        if "_slack" in names or "_teams" in names or "adaptivecards.io" in path.read_text():
            found["chat"].add(place)
    assert found == {"mail": {"core/mail.py"}, "chat": {"audit/webhooks/events.py"}}
