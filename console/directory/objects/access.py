"""Who may do what with an object: its access control list and what was delegated, in words."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.http import HttpResponse, HttpResponseBase
from django.urls import path
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from active_directory import EVERYONE_SID, FULL_CONTROL, right_names
from console.directory.objects.page import find, frame_of
from console.page_context import PageContext, console_page

Entry = Mapping[str, Any]

_FULL_CONTROL: Final = frozenset(right_names(FULL_CONTROL))
_READING: Final = frozenset({"read-property", "read-control", "list-children", "list-object"})
_IN_WORDS: Final = {
    "create-child": gettext_noop("create {subject}"),
    "delete-child": gettext_noop("delete {subject}"),
    "list-children": gettext_noop("list what is in it"),
    "self-write": gettext_noop("write {subject}, validated"),
    "read-property": gettext_noop("read {subject}"),
    "write-property": gettext_noop("write {subject}"),
    "delete-tree": gettext_noop("delete it with everything below"),
    "list-object": gettext_noop("see it in lists"),
    "control-access": "{subject}",
    "delete": gettext_noop("delete it"),
    "read-control": gettext_noop("read its permissions"),
    "write-dacl": gettext_noop("change its permissions"),
    "write-owner": gettext_noop("take ownership"),
}
_PAIRS: Final = (
    ("read-property", "write-property", gettext_noop("read and write {subject}")),
    ("create-child", "delete-child", gettext_noop("create and delete {subject}")),
)
"""Rights that are told together where both hold for the same."""
_OF_ALL: Final = {
    "create-child": gettext_noop("any objects in it"),
    "delete-child": gettext_noop("any objects in it"),
    "self-write": gettext_noop("all that can be"),
    "read-property": gettext_noop("all attributes"),
    "write-property": gettext_noop("all attributes"),
    "control-access": gettext_noop("all extended rights"),
}
_SUBJECT: Final = {
    "attribute": "{name}",
    "property-set": gettext_noop("the attributes of {name}"),
    "extended-right": "{name}",
    "validated-write": "{name}",
    "class": gettext_noop("{name} objects in it"),
}


_WHERE: Final = {
    (True, True): gettext_noop("All objects directly in it"),
    (True, False): gettext_noop("All objects below"),
    (False, True): gettext_noop("This object and all objects directly in it"),
    (False, False): gettext_noop("This object and all objects below"),
}
"""What an inherited entry holds for, by whether that is only what is below, and only what is directly in it."""
_WHERE_OF_CLASS: Final = {
    (True, True): gettext_noop("{name} objects directly in it"),
    (True, False): gettext_noop("{name} objects below"),
    (False, True): gettext_noop("This object and {name} objects directly in it"),
    (False, False): gettext_noop("This object and {name} objects below"),
}
"""The same of an entry that holds for the objects of one class."""


@dataclass(frozen=True, slots=True)
class Row:
    """Entries of one principal in words: `what` they allow or deny it, one after the other, and `where`."""

    principal: Mapping[str, Any]
    denies: bool
    where: str
    what: list[str]


def rows_of(entries: Iterable[Entry]) -> list[Row]:
    """Entries by whom and what they hold for, in the order of the first of each."""
    rows: dict[object, Row] = {}
    for entry in entries:
        denies, where = entry["type"] == "deny", _where(entry)
        row = Row(entry["principal"], denies, where, [])
        words = _in_words(entry)
        if "condition" in entry:
            words = _("{rights}, under a condition").format(rights=words)
        rows.setdefault((entry["principal"]["sid"], denies, where), row).what.append(words)
    return list(rows.values())


def _in_words(entry: Entry) -> str:
    """The rights of an entry: "full control", "read and write title", "create and delete user objects"."""
    return ", ".join(_rights(entry))


def _rights(entry: Entry) -> Iterator[str]:
    rights = list(entry["rights"])
    if entry["appliesTo"] is None:
        if set(rights) >= _FULL_CONTROL:
            yield _("full control")
            return
        if set(rights) >= _READING:
            yield _("read everything")
            rights = [right for right in rights if right not in _READING]
    told = set()
    for right in rights:
        if right in told:
            continue
        words = _IN_WORDS.get(right, right.replace("-", " "))
        if right == "control-access" and _kind(entry) in ("attribute", "property-set"):
            # which a confidential attribute asks for, to be read
            words = gettext_noop("control access to {subject}")
        for first, second, both in _PAIRS:
            if right in (first, second) and {first, second} <= set(rights):
                words = both
                told |= {first, second}
        yield _(words).format(subject=_subject(entry, right))


def _kind(entry: Entry) -> str | None:
    return entry["appliesTo"]["kind"] if entry["appliesTo"] else None


def _subject(entry: Entry, right: str) -> str:
    applies_to = entry["appliesTo"]
    if applies_to is None:
        return _(_OF_ALL.get(right, ""))
    kind, name = applies_to["kind"], applies_to["name"]
    if name is None:
        name = applies_to["guid"]
    elif kind not in ("attribute", "class"):  # the names of rights are words with hyphens
        name = name.replace("-", " ")
    return _(_SUBJECT[kind]).format(name=name)


def _where(entry: Entry) -> str:
    flags, only = set(entry["flags"]), entry["inheritedObjectType"]
    if "container-inherit" not in flags:
        return _("This object")
    is_direct, is_only_below = "no-propagate" in flags, "inherit-only" in flags
    if only:
        text = _WHERE_OF_CLASS[is_only_below, is_direct]
        return _(text).format(name=only["name"] or only["guid"])
    return _(_WHERE[is_only_below, is_direct])


@console_page(get="objects.read-access-control")
def access(page: PageContext, object_id: UUID) -> HttpResponseBase:
    record = find(page, object_id)
    control = page.perform("objects.read-access-control", id=object_id)
    return page.render(
        "directory/objects/access.html",
        {
            **frame_of(page, record, "object-access"),
            "control": control,
            "is_deletion_protected": _denies_deletion(control),
            "own": rows_of(entry for entry in control["entries"] if not entry["inherited"]),
            "inherited": rows_of(entry for entry in control["entries"] if entry["inherited"]),
        },
    )


@console_page(get="organization-units.read-delegations")
def delegations(page: PageContext, object_id: UUID) -> HttpResponseBase:
    record = find(page, object_id)
    inherited = "true" if page.query.get("inherited") == "true" else "false"
    found = page.perform("organization-units.read-delegations", id=object_id, query={"inherited": inherited})
    items = [
        (item["principal"], [(task, rows_of(task["entries"])) for task in item["tasks"]]) for item in found["items"]
    ]
    return page.render(
        "directory/objects/delegations.html",
        {**frame_of(page, record, "object-delegations"), "items": items, "inherited": inherited == "true"},
    )


@console_page(get="objects.who-can")
def who_can(page: PageContext, object_id: UUID) -> HttpResponseBase:
    """Who can do what to the object through the gateway."""
    record = find(page, object_id)
    query = {"pageSize": "50", **{name: value for name, value in page.query.items() if value}}
    found = page.perform("objects.who-can", id=object_id, query=query)
    context = {**frame_of(page, record, "object-who-can"), "found": found, "action": query.get("action", "")}
    return page.render("directory/objects/who_can.html", context)


@console_page(get="objects.read-access-control")
def deletion_protection(page: PageContext, object_id: UUID) -> HttpResponse:
    """The badge of an object that is protected from accidental deletion, which comes after the page."""
    control = page.perform("objects.read-access-control", id=object_id)
    return page.render("directory/objects/_deletion_protection.html", {"is_protected": _denies_deletion(control)})


def _denies_deletion(control: Mapping[str, Any]) -> bool:
    """Whether everyone is denied to delete the object: how the tools protect one from accidental deletion."""
    return any(
        entry["type"] == "deny"
        and entry["principal"]["sid"] == EVERYONE_SID
        and entry["appliesTo"] is None
        and "inherit-only" not in entry["flags"]
        and not {"delete", "delete-tree"}.isdisjoint(entry["rights"])
        for entry in control["entries"]
    )


urls = [
    path("directory/objects/<uuid:object_id>/access-control", access, name="object-access"),
    path("directory/objects/<uuid:object_id>/who-can", who_can, name="object-who-can"),
    path("directory/objects/<uuid:object_id>/delegations", delegations, name="object-delegations"),
    path(
        "directory/objects/<uuid:object_id>/deletion-protection",
        deletion_protection,
        name="object-deletion-protection",
    ),
]
