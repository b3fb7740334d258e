"""Tags and filters of the console's templates: times, names, errors beside fields, changes in words, API keys."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from django import template
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.html import format_html, format_html_join, json_script
from django.utils.safestring import SafeString
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from console.menu import MenuEntry, entries_for
from console.shared.spelling import spell
from console.shared.texts import error_title, field_message, script_translations
from console.shared.wording import dry_run_facts, log_record_facts
from core.errors import FieldError, GatewayError, InvalidRequest
from core.ip_addresses import is_allowed
from core.shapes import parse_duration
from core.text.messages import translated
from core.text.times import duration_in_words, exact_duration_in_words, relative_time, schedule_in_words, written_time
from core.text.vocabulary import in_sentence, noun_label, risk_words, translate_label
from directory.shapes.wording.change_words import ChangeWords, describe_change, resource_words
from directory.shapes.wording.labels import label_of, operation_words
from directory.shapes.wording.value_words import (
    NamedObject,
    Phrase,
    common_name,
    container_path,
    parse_name,
    with_bit_names,
)
from keys.api_keys import EXPIRES_WITHIN, UNUSED_FOR
from keys.models import Level
from keys.permissions.effective import access_of_person

register = template.Library()
register.filter(common_name)
register.filter("sentence", field_message)
register.filter("place", container_path)
register.filter("spelled", spell)
register.filter("words", noun_label)
register.filter(in_sentence)
register.filter(risk_words)
register.filter(translated)
register.filter(error_title)


def _as_datetime(value: datetime | str | None) -> datetime | None:
    try:
        return parse_datetime(value) if isinstance(value, str) else value
    except ValueError:  # a text of the directory that only looks like a time, such as that of 30 February
        return None


@register.filter
def moment(value: datetime | str | None) -> str | SafeString:
    """A time relative to now ("3 hours ago", "in 2 days"), with UTC as its title; — for none."""
    at = _as_datetime(value)
    if at is None:
        return str(value or "—")  # "never", for example
    at = at.astimezone(UTC)
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        at.isoformat(),
        written_time(at, seconds=True),
        relative_time((timezone.now() - at).total_seconds()),
    )


@register.filter
def exact_moment(value: datetime | str | None) -> str | SafeString:
    """A time to the second, in UTC; — for none."""
    at = _as_datetime(value)
    if at is None:
        return str(value or "—")
    at = at.astimezone(UTC)
    return format_html('<time data-exact datetime="{}">{}</time>', at.isoformat(), written_time(at, seconds=True))


@register.filter
def lasting(text: str) -> str:
    """An ISO 8601 duration in words: `PT8H` is "8 hours"."""
    return exact_duration_in_words(_seconds(text))


@register.filter
def schedule_words(change: Mapping[str, Any]) -> str:
    """When a change request is to be made and for how long; empty for one that is made at once and for good."""
    lasts = change["revertAfter"]
    begins, ends = (_as_datetime(change[name]) for name in ("dueAt", "revertAt"))
    return schedule_in_words(begins, ends, None if lasts is None else _seconds(lasts))


def _seconds(duration: str) -> int:
    return int(parse_duration(duration).total_seconds())


@register.filter
def is_past(value: str | None) -> bool:
    """Whether a time is over; not for none, nor for "never"."""
    at = _as_datetime(value)
    return at is not None and at < timezone.now()


@register.filter
def duration(seconds: float | None) -> str:
    """A duration rounded to its largest unit ("3 hours"); — for none."""
    return "—" if seconds is None else duration_in_words(seconds)


@register.filter
def place_below(distinguished_name: str | None, unit: str) -> str:
    """Where an object is, for a page about `unit`: empty directly in the unit, else as `container_path` gives it."""
    name = parse_name(distinguished_name)
    return "" if name is None or name.parent == parse_name(unit) else container_path(distinguished_name)


@register.filter
def health_check_label(name: str) -> str:
    """The label of a health check: "broker", or "directory" followed by the directory's name."""
    subject, _space, directory = name.partition(" ")
    return f"{translate_label(subject)} {directory}".strip()


@register.filter
def warns_of_imitation(reason: str) -> bool:
    """Whether a reason of a risk warns that a name imitates another one."""
    return "looks like that of" in reason or "characters that nobody sees" in reason


@register.filter
def quoted(text: str) -> str:
    """What somebody wrote, in the quotation marks of the reader's language."""
    return _("“{text}”").format(text=text)


@register.filter
def initials(name: str) -> str:
    """The first letters of the first and the last word."""
    words = name.split() or ["?"]
    return "".join(word[0] for word in dict.fromkeys((words[0], words[-1]))).upper()


@register.filter
def caller_label(name: str, is_agent: bool) -> str:
    """The key or agent that a person acted through."""
    return (_("agent {name}") if is_agent else _("key {name}")).format(name=name)


SHOWN_UNCHANGED = 12
"""With more values than this, such as a large group's members, only the changed ones are listed."""


@register.simple_tag(name="script_words")
def script_words_of_page() -> SafeString | str:
    """The scripts' texts in the page's language, as JSON; empty in English, which the scripts contain."""
    translations = script_translations()
    return json_script(translations, "words") if translations else ""


@register.simple_tag
def side_by_side(changes: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Changes with each value marked as kept or not; bit fields are spelled out.

    Takes the changes of a log record or dry run (`before`, `after`) and of a change request (`current`, `proposed`).
    `unchanged` counts the kept values that are left out.
    """
    return [_compared(change) for change in changes]


def _compared(change: Mapping[str, Any]) -> dict[str, Any]:
    before: Sequence[str] = change.get("before", change.get("current", ()))
    after: Sequence[str] = change.get("after", change.get("proposed", ()))
    kept = set(before) & set(after)
    hidden = kept if max(len(before), len(after)) > SHOWN_UNCHANGED else set()

    def marked(values: Sequence[str]) -> list[tuple[str, bool]]:
        return [(with_bit_names(change["attribute"], value), value in kept) for value in values if value not in hidden]

    # Of members, changes list only those added and removed: an empty side does not mean an empty group.
    is_list = change["attribute"].lower() == "member"
    return {
        "attribute": change["attribute"],
        "label": label_of(change["attribute"]),
        "before": marked(before),
        "after": marked(after),
        "unchanged": len(hidden),
        "others_stay": is_list and not kept and change.get("kept") != 0,
        "kept": change.get("kept"),
    }


@register.simple_tag
def unique_references(references: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The objects that a change request refers to, each once, with the referring `attributes`."""
    found: dict[str, dict[str, Any]] = {}
    for each in references:
        known = found.setdefault(each["id"], {**each, "attributes": []})
        if each["attribute"] not in known["attributes"]:
            known["attributes"].append(each["attribute"])
    return list(found.values())


STATUS_COLOURS = {
    **dict.fromkeys(("applied", "succeeded", "completed", "active"), "good"),
    **dict.fromkeys(("pending", "queued", "unknown", "stale"), "warn"),
    **dict.fromkeys(("failed", "partly-failed", "rejected", "revoked", "overdue", "disabled"), "bad"),
    **dict.fromkeys(("approved", "applying", "running", "scheduled"), "accent"),
}


@register.filter
def status_class(status: str) -> str:
    """The badge class of a status; empty for a neutral one."""
    return STATUS_COLOURS.get(status, "")


@register.filter
def field_label(error: FieldError) -> str:
    """The label of the field that an error is about: `#/allowedAddresses/0` is "allowed addresses"."""
    parts = (error.pointer or "").removeprefix("#/").split("/")
    return noun_label(next((part for part in reversed(parts) if not part.isdigit()), "") or error.parameter or "")


@register.filter
def headline(problem: GatewayError) -> str:
    """The heading of a refusal; for an invalid form, that its fields need attention."""
    if problem.code == InvalidRequest.code:
        return _("Something in the form needs another look")
    return translated(problem.title)


@register.simple_tag
def errors_at(problem: GatewayError | None, *places: str) -> list[str]:
    """The messages about a field, found by its JSON pointer (`#/name` and all below it) or query parameter."""
    return [field_message(error.detail) for error in _errors(problem) if any(_is_at(error, place) for place in places)]


@register.simple_tag
def errors_elsewhere(problem: GatewayError | None, *places: str | Sequence[str]) -> list[FieldError]:
    """The errors that belong to none of these fields, which are named one by one or in a list."""
    names = [name for place in places for name in ([place] if isinstance(place, str) else place)]
    return [error for error in _errors(problem) if not any(_is_at(error, name) for name in names)]


def _errors(problem: GatewayError | None) -> Sequence[FieldError]:
    return problem.errors if problem is not None else ()


def _is_at(error: FieldError, place: str) -> bool:
    pointer = error.pointer or ""
    return place in (error.parameter, pointer) or pointer.startswith(f"{place}/")


@register.simple_tag(takes_context=True)
def may(context: template.RequestContext, operation: str) -> bool:
    """Whether the person may call an operation at all; a target may require more permissions."""
    page = context.get("page")
    return page is not None and page.may(operation)


@register.simple_tag(takes_context=True)
def console_menu(context: template.RequestContext) -> list[MenuEntry]:
    """The console's menu for pages outside it, such as Django admin's."""
    held = access_of_person(context["request"].user).permissions
    return [entry for entry in entries_for(held, is_staff=False) if entry.operations]


# --- changes and log records in words


@register.simple_tag
def record_words(record: Mapping[str, Any]) -> ChangeWords:
    """A log record in words."""
    return describe_change(log_record_facts(record))


@register.simple_tag
def preview_words(operation: str, changes: Sequence[Mapping[str, Any]], about: Mapping[str, Any] | None) -> ChangeWords:
    """What a dry run would change, in words; `about` is the record of the object, None for a creation."""
    return describe_change(dry_run_facts(operation, changes, about))


@register.filter
def phrase_with_links(parts: Phrase) -> SafeString:
    """A phrase in which each object's name links to its page, followed by its account name and place."""
    return format_html_join("", "{}", ((_named(part) if isinstance(part, NamedObject) else part,) for part in parts))


def _named(item: NamedObject) -> SafeString:
    name = format_html("<strong>{}</strong>", item.name)
    if item.id:
        name = format_html('<a href="{}">{}</a>', reverse("console:object", kwargs={"object_id": item.id}), name)
    if not item.account_and_place:
        return name
    return format_html('{} <span class="quiet small">({})</span>', name, item.account_and_place)


@register.filter
def record_as_command(record: Mapping[str, Any]) -> str:
    """A log record as a command: "Reset the password of Ada Lovelace", "Delete a user", "Search users"."""
    if together := record.get("together"):
        # A run or a batch: "Disable 45 users", or for several operations just their number.
        count, operations = together["count"], together["operations"]
        if len(operations) > 1:
            return _("{count} changes together").format(count=count)
        return operation_words(operations[0], f"{count} {resource_words(operations[0].partition('.')[0], count)}")
    name = (record["target"] or {}).get("distinguishedName")
    if name and record.get("changes"):
        text = str(describe_change(log_record_facts(record)))
    else:
        text = operation_words(record["operation"], common_name(name))
    return _("Undo: {change}").format(change=text) if "reverts" in record else text


@register.simple_tag
def url_query(**parameters: Any) -> str:
    """A URL's query with these parameters, beginning with `?`."""
    return f"?{urlencode(parameters)}"


# --- API keys


@register.filter
def level_label(value: str) -> str:
    """The label of a supervision level."""
    return str(Level(value).label)


@register.filter
def key_warnings(key: Mapping[str, Any]) -> list[str]:
    """Warnings about an active key: deactivated owner, near expiry, unused."""
    if key["state"] != "active":
        return []
    now = timezone.now()
    expires, used = _as_datetime(key["expiresAt"]), _as_datetime(key["lastUsedAt"] or key["createdAt"])
    found = (
        (not key["ownerActive"], _("owner deactivated")),
        (expires is not None and expires <= now + EXPIRES_WITHIN, _("expires soon")),
        (used is not None and used <= now - UNUSED_FOR, _("unused")),
    )
    return [text for applies, text in found if applies]


@register.filter
def permission_titles(permissions: Iterable[Mapping[str, Any]]) -> str:
    """The titles of permissions, joined for a sentence: lower-case in English, unchanged in German."""
    is_english = (get_language() or "en").startswith("en")
    return ", ".join(item["title"].lower() if is_english else item["title"] for item in permissions)


@register.filter
def as_lines(values: Iterable[str]) -> str:
    """The values of a text area, one a line."""
    return "\n".join(values)


@register.filter
def key_names(keys: Iterable[Mapping[str, Any]]) -> str:
    """The names of keys, joined by commas."""
    return ", ".join(key["name"] for key in keys)


@register.filter
def is_address_allowed(allowed: Sequence[str], address: str | None) -> bool:
    """Whether a key's allowed addresses (empty: all) admit a request from this IP address."""
    return not allowed or is_allowed(address or "", allowed)
