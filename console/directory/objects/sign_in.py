"""Why somebody cannot sign in, on one card: what keeps them out, what each domain controller knows, what helps."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from django.http import HttpResponseBase
from django.urls import path, reverse
from django.utils import dates
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from console.directory.objects.page import ObjectAction, Record, find, frame_of, may_change
from console.page_context import PageContext, console_page
from console.shared.durations import exact_length_in_words
from console.shared.names import common_name, parsed
from core.text.vocabulary import capitalized
from directory.queries.sign_in_shapes import WEEKDAYS
from directory.shapes.kinds import permission_for

Report = Mapping[str, Any]

_REASONS: Final = {
    "disabled": gettext_noop("the account is disabled"),
    "expired": gettext_noop("the account has expired"),
    "lockedOut": gettext_noop("the account is locked out"),
    "lockedOutElsewhere": gettext_noop(
        "a domain controller has locked the account, or has not heard that it was unlocked"
    ),
    "passwordExpired": gettext_noop("the password has expired and has to be changed first"),
    "mustChangePassword": gettext_noop("the password has to be changed first"),
    "smartCardRequired": gettext_noop("only a smart card is accepted, no password"),
    "outsideHours": gettext_noop("they may not sign in at this hour"),
    "workstations": gettext_noop("they may sign in at some computers only"),
}
"""What an obstacle says, as a part of a sentence."""
_WEEK: Final = (*WEEKDAYS[1:], WEEKDAYS[0])
_DAYS: Final[dict[str, str]] = dict(zip(_WEEK, dates.WEEKDAYS.values(), strict=True))


@console_page(get="users.read-sign-in-report")
def sign_in(page: PageContext, object_id: UUID) -> HttpResponseBase:
    """The card, as a page of its own or for the overview, which it follows: silent servers take a moment."""
    report = page.perform("users.read-sign-in-report", id=object_id)
    record = find(page, object_id)
    context = {
        "record": record,
        "report": report,
        "verdict": verdict_of(report),
        "helps": list(_helps(page, record, report)),
        "hours": hours_in_words(report["allowedHours"]),
        "policy": policy_in_words(report["password"]["policy"]),
        "wrong_passwords": _wrong_passwords(report),
        "primary": next((server["server"] for server in report["servers"] if server["isPrimary"]), None),
    }
    if page.is_partial and page.request.headers.get("HX-Target") == "sign-in":
        return page.render("directory/objects/_sign_in.html", context)
    return page.render("directory/objects/sign_in.html", {**frame_of(page, record, "object"), **context})


def verdict_of(report: Report) -> tuple[str, str, str]:
    """The class of the verdict's badge, the verdict in a word, and why, in a sentence."""
    everywhere = [_(_REASONS[item["code"]]) for item in report["obstacles"] if item["everywhere"]]
    somewhere = [_(_REASONS[item["code"]]) for item in report["obstacles"] if not item["everywhere"]]
    if everywhere:
        return "bad", _("No"), f"{_listed([*everywhere, *somewhere])}."
    if somewhere:
        return "warn", _("Perhaps"), f"{_listed(somewhere)}."
    return "good", _("Yes"), _("Nothing in the directory keeps them from signing in.")


def _listed(reasons: Sequence[str]) -> str:
    text = reasons[-1]
    if len(reasons) > 1:
        text = _("{first}, and {last}").format(first=", ".join(reasons[:-1]), last=reasons[-1])
    return capitalized(text)


def _helps(page: PageContext, record: Record, report: Report) -> Iterator[ObjectAction]:
    """What may be done about the obstacles, the likeliest first; a new password helps who has forgotten theirs."""
    if not may_change(page, record):
        return
    codes = {item["code"] for item in report["obstacles"]}

    def to(view: str) -> str:
        return reverse(f"console:object-{view}", kwargs={"object_id": record["id"]})

    if codes & {"lockedOut", "lockedOutElsewhere"} and page.may("users.unlock"):
        yield ObjectAction(_("Unlock"), to("unlock"))
    if "disabled" in codes and page.may("users.enable"):
        yield ObjectAction(_("Enable"), to("enable"))
    if page.may("users.reset-password"):
        yield ObjectAction(_("Reset password"), to("reset-password"))
    if "expired" in codes and page.call.may(permission_for("update", record["kind"])):
        yield ObjectAction(_("Change the expiry"), to("edit"))


def _wrong_passwords(report: Report) -> int:
    """The most that any domain controller has counted: the primary one counts those of all others."""
    return max((server["badPasswordCount"] or 0 for server in report["servers"]), default=0)


def hours_in_words(allowed: Sequence[Mapping[str, Any]] | None) -> str:
    """`Monday to Friday 08:00–18:00, Saturday 09:00–12:00 (UTC)`; days of the same hours are told together."""
    if allowed is None:
        return _("At any time")
    by_day: dict[str, list[tuple[int, int]]] = {
        day: [(item["from"], item["to"]) for item in allowed if item["day"] == day] for day in _WEEK
    }
    if not any(by_day.values()):
        return _("Never")
    runs: list[list[str]] = []
    for day in _WEEK:
        if runs and by_day[runs[-1][0]] == by_day[day]:
            runs[-1].append(day)
        else:
            runs.append([day])
    told = [f"{_days(run)} {_times(by_day[run[0]])}" for run in runs if by_day[run[0]]]
    return f"{', '.join(told)} (UTC)"


def _days(run: Sequence[str]) -> str:
    first, last = str(_DAYS[run[0]]), str(_DAYS[run[-1]])
    match len(run):
        case 1:
            return first
        case 2:
            return _("{first} and {last}").format(first=first, last=last)
        case 7:
            return _("Every day")
    return _("{first} to {last}").format(first=first, last=last)


def _times(stretches: Sequence[tuple[int, int]]) -> str:
    if stretches == [(0, 24)]:
        return _("all day")
    told = [f"{start:02}:00–{end:02}:00" for start, end in stretches]
    if len(told) == 1:
        return told[0]
    return _("{first} and {last}").format(first=", ".join(told[:-1]), last=told[-1])


def policy_in_words(policy: Mapping[str, Any] | None) -> list[str]:
    """What the policy says of the age of passwords and of lock-outs, and whose it is; nothing where it is not known."""
    if policy is None:
        return []
    age, threshold = policy["maxAgeSeconds"], policy["lockoutThreshold"]
    told = [
        _("Passwords expire after {length}.").format(length=exact_length_in_words(age))
        if age
        else _("Passwords do not expire.")
    ]
    if not threshold:
        told.append(_("Wrong passwords never lock the account."))
    else:
        told.append(_lock_outs_in_words(threshold, policy["lockoutWindowSeconds"], policy["lockoutSeconds"]))
    name = parsed(policy["source"])
    is_domains = name is None or all(rdn[0][0].upper() == "DC" for rdn in name.rdns)
    by_policy = _("By the policy {name}.").format(name=common_name(policy["source"]))
    told.append(_("By the domain's policy.") if is_domains else by_policy)
    return told


def _lock_outs_in_words(threshold: int, window: int, duration: int) -> str:
    """After how many wrong passwords within how many seconds an account is locked, and for how many (0: for good)."""
    within = exact_length_in_words(window)
    if duration:
        text = _("{count} wrong passwords within {within} lock the account for {length}.")
        return text.format(count=threshold, within=within, length=exact_length_in_words(duration))
    text = _("{count} wrong passwords within {within} lock the account until somebody unlocks it.")
    return text.format(count=threshold, within=within)


urls = [path("directory/objects/<uuid:object_id>/sign-in", sign_in, name="object-sign-in")]
