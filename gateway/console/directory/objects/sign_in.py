"""Why somebody cannot sign in, on one card: what keeps them out, what each domain controller knows, what helps."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from django.http import HttpResponseBase
from django.urls import path, reverse

from directory.queries.sign_in_shapes import WEEKDAYS
from directory.shapes.kinds import permission_for
from gateway.console.directory.objects.page import ObjectAction, Record, find, frame_of, may_change
from gateway.console.page_context import PageContext, console_page
from gateway.console.shared.names import common_name, parsed

Report = Mapping[str, Any]

_REASONS: Final = {
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
"""What an obstacle says, as a part of a sentence."""
_WEEK: Final = (*WEEKDAYS[1:], WEEKDAYS[0])
_SPANS: Final = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


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
    everywhere = [_REASONS[item["code"]] for item in report["obstacles"] if item["everywhere"]]
    somewhere = [_REASONS[item["code"]] for item in report["obstacles"] if not item["everywhere"]]
    if everywhere:
        return "bad", "No", f"{_listed([*everywhere, *somewhere])}."
    if somewhere:
        return "warn", "Perhaps", f"{_listed(somewhere)}."
    return "good", "Yes", "Nothing in the directory keeps them from signing in."


def _listed(reasons: Sequence[str]) -> str:
    text = ", and ".join(filter(None, (", ".join(reasons[:-1]), reasons[-1])))
    return text[:1].upper() + text[1:]


def _helps(page: PageContext, record: Record, report: Report) -> Iterator[ObjectAction]:
    """What may be done about the obstacles, the likeliest first; a new password helps who has forgotten theirs."""
    if not may_change(page, record):
        return
    codes = {item["code"] for item in report["obstacles"]}

    def to(view: str) -> str:
        return reverse(f"console:object-{view}", kwargs={"object_id": record["id"]})

    if codes & {"lockedOut", "lockedOutElsewhere"} and page.may("users.unlock"):
        yield ObjectAction("Unlock", to("unlock"))
    if "disabled" in codes and page.may("users.enable"):
        yield ObjectAction("Enable", to("enable"))
    if page.may("users.reset-password"):
        yield ObjectAction("Reset password", to("reset-password"))
    if "expired" in codes and page.call.may(permission_for("update", record["kind"])):
        yield ObjectAction("Change the expiry", to("edit"))


def _wrong_passwords(report: Report) -> int:
    """The most that any domain controller has counted: the primary one counts those of all others."""
    return max((server["badPasswordCount"] or 0 for server in report["servers"]), default=0)


def hours_in_words(allowed: Sequence[Mapping[str, Any]] | None) -> str:
    """`Monday to Friday 08:00–18:00, Saturday 09:00–12:00 (UTC)`; days of the same hours are told together."""
    if allowed is None:
        return "At any time"
    by_day: dict[str, list[tuple[int, int]]] = {
        day: [(item["from"], item["to"]) for item in allowed if item["day"] == day] for day in _WEEK
    }
    if not any(by_day.values()):
        return "Never"
    runs: list[list[str]] = []
    for day in _WEEK:
        if runs and by_day[runs[-1][0]] == by_day[day]:
            runs[-1].append(day)
        else:
            runs.append([day])
    told = [f"{_days(run)} {_times(by_day[run[0]])}" for run in runs if by_day[run[0]]]
    return f"{', '.join(told)} (UTC)"


def _days(run: Sequence[str]) -> str:
    first, last = run[0].capitalize(), run[-1].capitalize()
    if len(run) == len(_WEEK):
        return "Every day"
    return first if len(run) == 1 else f"{first} {'and' if len(run) == 2 else 'to'} {last}"


def _times(stretches: Sequence[tuple[int, int]]) -> str:
    if stretches == [(0, 24)]:
        return "all day"
    return " and ".join(f"{start:02}:00–{end:02}:00" for start, end in stretches)


def policy_in_words(policy: Mapping[str, Any] | None) -> list[str]:
    """What the policy says of the age of passwords and of lock-outs, and whose it is; nothing where it is not known."""
    if policy is None:
        return []
    age, threshold = policy["maxAgeSeconds"], policy["lockoutThreshold"]
    told = [f"Passwords expire after {span(age)}." if age else "Passwords do not expire."]
    if not threshold:
        told.append("Wrong passwords never lock the account.")
    else:
        until = f"for {span(policy['lockoutSeconds'])}" if policy["lockoutSeconds"] else "until somebody unlocks it"
        within = span(policy["lockoutWindowSeconds"])
        told.append(f"{threshold} wrong passwords within {within} lock the account {until}.")
    name = parsed(policy["source"])
    is_domains = name is None or all(rdn[0][0].upper() == "DC" for rdn in name.rdns)
    told.append("By the domain's policy." if is_domains else f"By the policy {common_name(policy['source'])}.")
    return told


def span(seconds: int) -> str:
    """A length of time in the greatest unit that divides it: 42 days, 90 minutes."""
    length, unit = next((length, unit) for length, unit in _SPANS if seconds % length == 0)
    count = seconds // length
    return f"{count} {unit}{'' if count == 1 else 's'}"


urls = [path("directory/objects/<uuid:object_id>/sign-in", sign_in, name="object-sign-in")]
