"""Facts in the reader's words: browsers, and the facts that sentences about changes are made from."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext as _

from directory.shapes.wording.change_words import ChangeFacts, change_facts


def seconds_since(moment: str) -> int:
    """The whole seconds since an RFC 3339 time; 0 for a future one."""
    return max(0, int((timezone.now() - datetime.fromisoformat(moment)).total_seconds()))


def change_request_facts(item: Mapping[str, Any]) -> ChangeFacts:
    """The facts of a change request from the inbox or a review."""
    change = item["changeRequest"]
    unlisted = item["unlisted"]
    return change_facts(
        change["operation"],
        [{**each, "kept": unlisted.get(each["attribute"])} for each in change["changes"]],
        change["target"],
        account_name=item["targetAccount"],
        kind=item["targetKind"],
        references=change["references"],
        own=item["directory"] is None,
    )


def log_record_facts(record: Mapping[str, Any]) -> ChangeFacts:
    """The facts of a log record, or of a change request's public part, which has the same shape."""
    return change_facts(
        record["operation"],
        record["changes"],
        record["target"],
        kind=(record["target"] or {}).get("kind") or "",
        references=record.get("references", ()),
        own=record.get("directory", "") is None,
    )


def dry_run_facts(operation: str, changes: Sequence[Mapping[str, Any]], about: Mapping[str, Any] | None) -> ChangeFacts:
    """The facts of a dry run; `about` is the record of the object, None for a creation."""
    if about is None:
        named = next((item["after"] for item in changes if item["attribute"] == "distinguishedName"), ())
        return change_facts(operation, changes, {"distinguishedName": next(iter(named), "")})
    members = (about.get("group") or {}).get("memberCount")
    return change_facts(
        operation,
        [_with_kept(change, members) for change in changes],
        about,
        account_name=(about.get("account") or {}).get("samAccountName"),
        kind=about["kind"],
    )


def _with_kept(change: Mapping[str, Any], members: int | None) -> Mapping[str, Any]:
    """Add how many members stay: a dry run lists only those that are added or removed."""
    if members is None or change["attribute"].lower() != "member":
        return change
    return {**change, "kept": max(0, members - len(change["before"]))}


# In this order: Edge and Opera also claim to be Chrome, and Chrome claims to be Safari.
_BROWSERS = (("Edg", "Edge"), ("OPR", "Opera"), ("Firefox", "Firefox"), ("Chrome", "Chrome"), ("Safari", "Safari"))
_SYSTEMS = (
    ("Windows", "Windows"),
    ("Android", "Android"),
    ("iPhone", "iOS"),
    ("iPad", "iPadOS"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)


def client_name(user_agent: str) -> str:
    """The browser and system of a User-Agent header ("Firefox on Linux"), else its first product token."""
    browser = next((name for token, name in _BROWSERS if f"{token}/" in user_agent), None)
    system = next((name for token, name in _SYSTEMS if token in user_agent), None)
    if browser is None:
        return re.split(r"[/ ]", user_agent, maxsplit=1)[0] or _("Unknown")
    return _("{browser} on {system}").format(browser=browser, system=system) if system else browser
