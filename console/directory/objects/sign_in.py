"""Why a person cannot sign in: the obstacles, what each domain controller knows, and remedies, on one card."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.http import HttpResponseBase
from django.utils.translation import gettext as _

from console.directory.objects.form import Record
from console.directory.objects.page import ObjectAction, find_object, may_change, object_url, render_object
from console.page_context import PageContext, page_at
from core.text.times import exact_duration_in_words
from core.text.vocabulary import capitalized, texts_by_name
from directory.shapes.kinds import permission_for
from directory.shapes.sign_in_hours import hours_in_words
from directory.shapes.wording.value_words import common_name, parse_name

Report = Mapping[str, Any]

_REASONS = texts_by_name(
    {
        "disabled": "the account is disabled",
        "expired": "the account has expired",
        "lockedOut": "the account is locked out",
        "lockedOutElsewhere": "a domain controller has locked the account, or has not heard that it was unlocked",
        "passwordExpired": "the password has expired and has to be changed first",
        "mustChangePassword": "the password has to be changed first",
        "smartCardRequired": "only a smart card is accepted, no password",
        "outsideHours": "they may not sign in at this hour",
        "workstations": "they may sign in at some computers only",
    }
)
"""The obstacles in words, as parts of a sentence."""


@page_at("directory/objects/<uuid:object_id>/sign-in", "object-sign-in", get="users.read-sign-in-report")
def sign_in(page: PageContext, object_id: UUID) -> HttpResponseBase:
    """The card, on its own page or in the overview, where it loads later: unreachable domain controllers take time."""
    report = page.perform("users.read-sign-in-report", id=object_id)
    record = find_object(page, object_id)
    is_card = page.requested_part == "sign-in"
    return render_object(
        page,
        record,
        "_sign_in" if is_card else "sign_in",
        report=report,
        knows_who=page.call.may("audit.read_log") or page.call.may("directory.enable_account"),
        verdict=sign_in_verdict(report),
        helps=remedies(page, record, report),
        hours=hours_in_words(report["allowedHours"]),
        policy=policy_in_words(report["password"]["policy"]),
        # badPwdCount does not replicate, but the PDC emulator sees every wrong password: the maximum counts them all.
        wrong_passwords=max((server["badPasswordCount"] or 0 for server in report["servers"]), default=0),
        primary=next((server["server"] for server in report["servers"] if server["isPrimary"]), None),
    )


def sign_in_verdict(report: Report) -> tuple[str, str, str]:
    """The badge's class, the verdict in a word, and the reason in a sentence."""
    obstacles = sorted(report["obstacles"], key=lambda item: not item["everywhere"])
    if not obstacles:
        return "good", _("Yes"), _("Nothing in the directory keeps them from signing in.")
    reasons = _join([_(_REASONS[item["code"]]) for item in obstacles], _("{first}, and {last}"))
    sentence = f"{capitalized(reasons)}."
    return ("bad", _("No"), sentence) if obstacles[0]["everywhere"] else ("warn", _("Perhaps"), sentence)


def _join(texts: Sequence[str], pattern: str) -> str:
    """Join texts as `a, b and c`; the pattern joins the last one."""
    *first, last = texts
    return pattern.format(first=", ".join(first), last=last) if first else last


def remedies(page: PageContext, record: Record, report: Report) -> list[ObjectAction]:
    """Actions against the obstacles, first what keeps them out everywhere, and a password reset: people forget them."""
    codes = {item["code"] for item in report["obstacles"]}
    may_edit = page.call.may(permission_for("update", record["kind"]))
    reset = ObjectAction(_("Reset password"), object_url(record, "reset-password"), page.may("users.reset-password"))
    edit = object_url(record, "edit")
    helps = (
        ("disabled", ObjectAction(_("Enable"), object_url(record, "enable"), page.may("users.enable"))),
        ("expired", ObjectAction(_("Extend the account"), f"{edit}#account.expiresAt", may_edit)),
        ("outsideHours", ObjectAction(_("Allow every hour"), f"{edit}?clear=logonHours", may_edit)),
        ("lockedOut", ObjectAction(_("Unlock"), object_url(record, "unlock"), page.may("users.unlock"))),
        ("lockedOutElsewhere", ObjectAction(_("Unlock"), object_url(record, "unlock"), page.may("users.unlock"))),
        ("passwordExpired", reset),
        ("mustChangePassword", reset),
        ("workstations", ObjectAction(_("Allow every computer"), f"{edit}?clear=userWorkstations", may_edit)),
    )
    offered = [help for code, help in helps if code in codes and help.is_offered]
    return list(dict.fromkeys([*offered, *([reset] if reset.is_offered else [])])) if may_change(page, record) else []


def policy_in_words(policy: Mapping[str, Any] | None) -> list[str]:
    """The policy's password age and lock-out, and its source, as sentences; empty if the policy is unknown."""
    if policy is None:
        return []
    age, threshold, length = policy["maxAgeSeconds"], policy["lockoutThreshold"], policy["lockoutSeconds"]
    expiry, lock_out = _("Passwords do not expire."), _("Wrong passwords never lock the account.")
    if age:
        expiry = _("Passwords expire after {length}.").format(length=exact_duration_in_words(age))
    if threshold:
        within = exact_duration_in_words(policy["lockoutWindowSeconds"])
        if length:
            text = _("{count} wrong passwords within {within} lock the account for {length}.")
        else:
            text = _("{count} wrong passwords within {within} lock the account until somebody unlocks it.")
        lock_out = text.format(count=threshold, within=within, length=length and exact_duration_in_words(length))
    name = parse_name(policy["source"])
    source = _("By the policy {name}.").format(name=common_name(policy["source"]))
    return [expiry, lock_out, _("By the domain's policy.") if name is None or name == name.domain else source]
