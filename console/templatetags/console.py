"""Tags and filters of the console's templates: moments, names, values side by side, and where a refusal belongs."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django import template
from django.http import QueryDict
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.html import format_html, json_script
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from console.menu import Entry, entries_for
from console.shared.durations import distance_in_words, length_in_words
from console.shared.field_messages import field_message
from console.shared.names import common_name, parsed, place
from console.shared.script_words import script_words
from core.errors import FieldError, GatewayError, InvalidRequest
from core.text.messages import translated
from core.text.vocabulary import in_sentence, noun_label, risk_words, translate_label
from directory.shapes.wording.attribute_labels import label_of
from directory.shapes.wording.explained_values import explained
from keys.permissions.effective import held_by_person

register = template.Library()
register.filter(common_name)
register.filter("sentence", field_message)
register.filter(place)
register.filter("words", noun_label)
register.filter(in_sentence)
register.filter(risk_words)


def _as_datetime(value: datetime | str | None) -> datetime | None:
    return parse_datetime(value) if isinstance(value, str) else value


@register.filter
def moment(value: datetime | str | None) -> str | SafeString:
    """A time as people say it ("3 hours ago", "in 2 days"), with the exact one in UTC to be seen on it; — for none."""
    at = _as_datetime(value)
    if at is None:
        return str(value or "—")  # "never" and its like
    at = at.astimezone(UTC)
    return format_html(
        '<time datetime="{}" title="{} UTC">{}</time>',
        at.isoformat(),
        f"{at:%Y-%m-%d %H:%M:%S}",
        distance_in_words((timezone.now() - at).total_seconds()),
    )


@register.filter
def exact(value: datetime | str | None) -> str | SafeString:
    """A time to the second, in UTC; — for none."""
    at = _as_datetime(value)
    if at is None:
        return str(value or "—")
    at = at.astimezone(UTC)
    return format_html('<time data-exact datetime="{}">{}</time>', at.isoformat(), f"{at:%Y-%m-%d %H:%M:%S} UTC")


@register.filter
def duration(seconds: float | None) -> str:
    """A length of time in its greatest whole unit ("3 hours"); — for none."""
    if seconds is None:
        return "—"
    return length_in_words(seconds)


@register.filter
def place_below(distinguished_name: str | None, unit: str) -> str:
    """Where an object is below a unit that is on the page anyway: empty directly in it, else as `place` says it."""
    name = parsed(distinguished_name)
    return "" if name is None or name.parent == parsed(unit) else place(distinguished_name)


@register.filter
def check_words(name: str) -> str:
    """What a check of the gateway's health is of: "broker", or a directory, which is followed by its name."""
    what, _space, which = name.partition(" ")
    return f"{translate_label(what)} {which}".strip()


@register.filter
def is_about_deceit(reason: str) -> bool:
    """Whether a reason of a risk says that a name may be taken for another one."""
    return "looks like that of" in reason or "characters that nobody sees" in reason


@register.filter
def caller_words(name: str, is_agent: bool) -> str:
    """What a person worked with, a key or an agent of this name."""
    return (_("agent {name}") if is_agent else _("key {name}")).format(name=name)


SHOWN_UNCHANGED = 12
"""Of an attribute with more values than this, say a large group's members, only those that change are listed."""


@register.simple_tag(name="script_words")
def script_words_of_page() -> SafeString | str:
    """What the page's scripts say in its language; nothing where that is English, which they speak by themselves."""
    words_of_scripts = script_words()
    return json_script(words_of_scripts, "words") if words_of_scripts else ""


@register.simple_tag
def side_by_side(changes: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Changes with, of each value, whether the other side has it too; values of bits with their names.

    Takes them as a log record or a dry run gives them (`before`, `after`) and as a change request does (`current`,
    `proposed`). `unchanged` is how many values on both sides are left out.
    """
    return [_compared(change) for change in changes]


def _compared(change: Mapping[str, Any]) -> dict[str, Any]:
    before: Sequence[str] = change.get("before", change.get("current", ()))
    after: Sequence[str] = change.get("after", change.get("proposed", ()))
    kept = set(before) & set(after)
    hidden = kept if max(len(before), len(after)) > SHOWN_UNCHANGED else set()

    def marked(values: Sequence[str]) -> list[tuple[str, bool]]:
        return [(explained(change["attribute"], value), value in kept) for value in values if value not in hidden]

    is_list = change["attribute"].lower() == "member"  # told by what comes and goes, so an empty side is no empty group
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
def each_once(references: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The objects that a change request refers to, each once, with the `attributes` that do."""
    found: dict[str, dict[str, Any]] = {}
    for each in references:
        known = found.setdefault(each["id"], {**each, "attributes": []})
        if each["attribute"] not in known["attributes"]:
            known["attributes"].append(each["attribute"])
    return list(found.values())


_LOOKS = {
    **dict.fromkeys(("applied", "succeeded", "completed", "active"), "good"),
    **dict.fromkeys(("pending", "queued", "unknown", "stale"), "warn"),
    **dict.fromkeys(("failed", "partly-failed", "rejected", "revoked"), "bad"),
    **dict.fromkeys(("approved", "applying", "running"), "accent"),
}


@register.filter
def status_look(status: str) -> str:
    """The class of a badge that says how something stands; empty for what is neither good nor bad."""
    return _LOOKS.get(status, "")


@register.filter
def field_words(error: FieldError) -> str:
    """The field a refusal is about, as its label says it: `#/allowedAddresses/0` is "allowed addresses"."""
    parts = (error.pointer or "").removeprefix("#/").split("/")
    return noun_label(next((part for part in reversed(parts) if not part.isdigit()), "") or error.parameter or "")


@register.filter
def headline(problem: GatewayError) -> str:
    """What a refusal says first: of a form, that it is about its fields."""
    if problem.code == InvalidRequest.code:
        return _("Something in the form needs another look")
    return title_of(problem)


@register.filter
def title_of(problem: GatewayError) -> str:
    """The title of a refusal in the reader's language."""
    return translated(problem.title)


@register.filter
def detail(problem: GatewayError | FieldError) -> str:
    """What a refusal says, or what it says of a field, in the reader's language where that is known."""
    return translated(problem.detail)


@register.simple_tag
def errors_at(problem: GatewayError | None, *places: str) -> list[str]:
    """What a refusal says of a field: by its pointer (`#/name`, and whatever is below it) or its parameter's name."""
    return [field_message(error.detail) for error in _errors(problem) if any(_is_at(error, place) for place in places)]


@register.simple_tag
def errors_elsewhere(problem: GatewayError | None, *places: str | Sequence[str]) -> list[FieldError]:
    """What a refusal says that belongs to none of these fields, named one by one or in a list."""
    names = [name for place in places for name in ([place] if isinstance(place, str) else place)]
    return [error for error in _errors(problem) if not any(_is_at(error, name) for name in names)]


def _errors(problem: GatewayError | None) -> Sequence[FieldError]:
    return problem.errors if problem is not None else ()


def _is_at(error: FieldError, place: str) -> bool:
    pointer = error.pointer or ""
    return place in (error.parameter, pointer) or pointer.startswith(f"{place}/")


@register.simple_tag(takes_context=True)
def address_with(context: template.RequestContext, **changed: Any) -> str:
    """The query of this page's address with some parameters changed, without those set to None; begins with `?`."""
    query: QueryDict = context["request"].GET.copy()
    for name, value in changed.items():
        if value is None or value == "":
            query.pop(name, None)
        else:
            query[name] = str(value)
    return f"?{query.urlencode()}"


@register.simple_tag(takes_context=True)
def may(context: template.RequestContext, operation: str) -> bool:
    """Whether the person may call an operation at all; what the target asks for besides shows when they do."""
    page = context.get("page")
    return page is not None and page.may(operation)


@register.simple_tag(takes_context=True)
def console_menu(context: template.RequestContext) -> list[Entry]:
    """The parts of the console that the person may see, for pages that are none of it."""
    person = context["request"].user
    held = held_by_person(
        person.pk, is_active=person.is_active, is_superuser=person.is_superuser, own_scopes=person.scopes
    )
    return [entry for entry in entries_for(held.permissions, is_staff=False) if entry.operations]
