"""Somebody on the telephone: who it is, what keeps them out, what mends that, and the note for the ticket."""

import re
from typing import Any
from uuid import UUID

from django.http import HttpResponseBase
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from console.directory.objects.page import find_object, may_change, readable_attributes, render_object
from console.directory.objects.sign_in import remedies, sign_in_verdict
from console.directory.quick_search import find_people
from console.page_context import PageContext, page_at
from console.shared.wording import log_record_facts
from core import shown_once
from core.errors import InvalidRequest, NotFound
from core.text.messages import message
from directory.shapes.wording.change_words import describe_change

_ATTRIBUTE = re.compile(r"\s*\{([\w-]+)\}")
_ACTIONS = {
    "unlock": (gettext_noop("Unlock"), ("lockedOut", "lockedOutElsewhere")),
    "enable": (gettext_noop("Enable"), ("disabled",)),
    "reset-password": (gettext_noop("Give a new password"), None),
}
"""What is done on this page, with the obstacles that it removes; a password is always offered."""


@page_at("call/", "call", get="objects.search")
def call(page: PageContext) -> HttpResponseBase:
    """Find the caller; a single one is shown at once."""
    text = page.query["q"].strip()
    found = find_people(page, text) if text else []
    if len(found) == 1:
        return page.redirect("call-person", object_id=found[0]["id"])
    return page.render("directory/call.html", {"found": found, "text": text})


def _person(page: PageContext, object_id: UUID) -> HttpResponseBase:
    questions = _questions(page)
    names = readable_attributes(page, (name for _question, name in questions if name)) if questions else []
    record = find_object(page, object_id, *names)
    report = page.perform("users.read-sign-in-report", id=object_id)
    codes = {item["code"] for item in report["obstacles"]}
    verdict = sign_in_verdict(report)
    actions = {
        action: _(label)
        for action, (label, removes) in _ACTIONS.items()
        if page.may(f"users.{action}") and may_change(page, record) and (removes is None or codes & {*removes})
    }
    shown = (shown_once.take(page.request) if not page.is_post else None) or {}
    return render_object(
        page,
        record,
        "call",
        questions=[(question, record["attributes"].get(name, [])) for question, name in questions],
        verdict=verdict,
        actions=actions,
        helps=[help for help in remedies(page, record, report) if help.address.rpartition("/")[2] not in _ACTIONS],
        shown={**shown, **page.form},
        note=_note(page, record, verdict[2]),
    )


def _questions(page: PageContext) -> list[tuple[str, str]]:
    """The company's questions to callers, each with the attribute that has the answer, if it names one."""
    own = page.call.directory
    text = next((each.identity_questions for each in page.directories if own and each.id == own.id), "")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return [
        (_ATTRIBUTE.sub("", line), found[1] if (found := _ATTRIBUTE.search(line)) is not None else "") for line in lines
    ]


def _note(page: PageContext, record: Any, verdict: str) -> str:
    """What was done for the person in this session, and how they stand, for the ticket."""
    own = page.perform("operations.search-own", query={"pageSize": "20"})["items"]
    done = [
        f"{each['at'][:16].replace('T', ' ')} UTC: {describe_change(log_record_facts(each))}. {each['reason'] or ''}"
        for each in reversed(own)
        if (each["target"] or {}).get("id") == str(record["id"]) and each["outcome"] == "succeeded"
    ]
    head = f"{record['name']} ({record['account']['samAccountName']})"
    return "\n".join((head, *done, f"{timezone.now():%Y-%m-%d %H:%M} UTC: {verdict}"))


@page_at(
    *("call/<uuid:object_id>", "call-person"),
    get="users.read-sign-in-report",
    post="users.unlock",
    form=_person,
)
def mend(page: PageContext, object_id: UUID) -> HttpResponseBase:
    """Do one thing for the caller, who has been identified."""
    action = page.form["action"]
    if action not in _ACTIONS:
        raise NotFound
    if _questions(page) and "answered" not in page.form:
        raise InvalidRequest.naming(message("has to be ticked: the caller is not identified"), pointer="#/answered")
    identified = _("The caller is identified.") if "answered" in page.form else ""
    reason = " ".join(filter(None, (page.form["ticket"].strip(), identified, page.form["cause"])))[:500]
    body = {"generate": True, "mustChange": True} if action == "reset-password" else None
    answer = page.perform(f"users.{action}", id=object_id, body=body, reason=reason)
    kept = {name: page.form[name] for name in ("ticket", "answered") if name in page.form}
    shown = {**kept, "done": action, "password": answer.get("generatedPassword")}
    return page.redirect_showing(shown, "call-person", object_id=object_id)
