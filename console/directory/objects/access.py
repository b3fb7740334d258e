"""An object's access control list and delegations in words, and who can change it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from uuid import UUID

from django.http import HttpResponse, HttpResponseBase
from django.utils.translation import gettext as _

from active_directory import EVERYONE_SID, FULL_CONTROL, right_names
from console.directory.objects.page import find_object, render_object
from console.page_context import PageContext, page_at
from core.text.vocabulary import declare_texts, texts_by_name

Entry = Mapping[str, Any]

_FULL_CONTROL = frozenset(right_names(FULL_CONTROL))
_READ_RIGHTS = frozenset({"read-property", "read-control", "list-children", "list-object"})
_RIGHT_PHRASES = texts_by_name(
    {
        "create-and-delete-child": "create and delete {subject}",
        "create-child": "create {subject}",
        "delete-child": "delete {subject}",
        "list-children": "list what is in it",
        "self-write": "write {subject}, validated",
        "read-and-write-property": "read and write {subject}",
        "read-property": "read {subject}",
        "write-property": "write {subject}",
        "delete-tree": "delete it with everything below",
        "list-object": "see it in lists",
        "control-access": "{subject}",
        "delete": "delete it",
        "read-control": "read its permissions",
        "write-dacl": "change its permissions",
        "write-owner": "take ownership",
    }
)
"""Phrases of rights in the order in which they are listed; those with "and" combine two rights on the same subject."""
_PAIRS = (("create", "delete", "child"), ("read", "write", "property"))
_UNRESTRICTED_SUBJECTS = texts_by_name(
    {
        "child": "any objects in it",
        "write": "all that can be",
        "property": "all attributes",
        "access": "all extended rights",
    }
)
"""The subject of a right without an object type, by the last word of the right's name."""
_SUBJECT_PHRASES = texts_by_name(
    {
        "property-set": "the attributes of {name}",
        "class": "{name} objects in it",
    }
)
_APPLIES_TO = texts_by_name(
    {
        (True, True): "All objects directly in it",
        (True, False): "All objects below",
        (False, True): "This object and all objects directly in it",
        (False, False): "This object and all objects below",
    }
)
"""What an inheritable entry applies to, by the flags inherit-only and no-propagate ([MS-DTYP] section 2.4.4.1)."""
_APPLIES_TO_CLASS = texts_by_name(
    {
        (True, True): "{name} objects directly in it",
        (True, False): "{name} objects below",
        (False, True): "This object and {name} objects directly in it",
        (False, False): "This object and {name} objects below",
    }
)
"""The same for an entry that is inherited only by objects of one class."""

_WAYS = texts_by_name(
    {
        "explicit": "given on this object",
        "inherited": "inherited from above",
        "container": "given on the container that it is in",
        "owner": "as its owner",
    }
)

declare_texts(["control access to {subject}", "change access control"])


def access_control_rows(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """Access control entries in words, grouped by principal, type and what they apply to, in order of appearance.

    `what` lists the rights that the entries of a row allow or deny the `principal`.
    """
    rows: dict[object, dict[str, Any]] = {}
    for entry in entries:
        principal, denies, where = entry["principal"], entry["type"] == "deny", _applies_to_phrase(entry)
        row = {"principal": principal, "denies": denies, "where": where, "what": []}
        words = ", ".join(_right_phrases(entry))
        if "condition" in entry:
            words = _("{rights}, under a condition").format(rights=words)
        rows.setdefault((principal["sid"], denies, where), row)["what"].append(words)
    return list(rows.values())


def _right_phrases(entry: Entry) -> Iterator[str]:
    """The rights of an entry: "full control", "read and write title", "create and delete user objects"."""
    rights, applies_to = set(entry["rights"]), entry["appliesTo"]
    if applies_to is None:
        if rights >= _FULL_CONTROL:
            yield _("full control")
            return
        if rights >= _READ_RIGHTS:
            yield _("read everything")
            rights -= _READ_RIGHTS
    for first, second, what in _PAIRS:
        if rights >= (pair := {f"{first}-{what}", f"{second}-{what}"}):
            rights = rights - pair | {f"{first}-and-{second}-{what}"}
    for right in [right for right in _RIGHT_PHRASES if right in rights] + sorted(rights - _RIGHT_PHRASES.keys()):
        words = _RIGHT_PHRASES.get(right, right.replace("-", " "))
        if right == "control-access" and applies_to and applies_to["kind"] in ("attribute", "property-set"):
            # needed to read a confidential attribute ([MS-ADTS] section 3.1.1.4.4)
            words = "control access to {subject}"
        yield _(words).format(subject=_subject(applies_to, right))


def _subject(applies_to: Mapping[str, Any] | None, right: str) -> str:
    if applies_to is None:
        return _(_UNRESTRICTED_SUBJECTS.get(right.rpartition("-")[2], ""))
    kind, name = applies_to["kind"], applies_to["name"]
    if name is None:
        name = applies_to["guid"]
    elif kind not in ("attribute", "class"):  # the names of rights are words with hyphens
        name = name.replace("-", " ")
    return _(_SUBJECT_PHRASES.get(kind, "{name}")).format(name=name)


def _applies_to_phrase(entry: Entry) -> str:
    flags, only = set(entry["flags"]), entry["inheritedObjectType"]
    if "container-inherit" not in flags:
        return _("This object")
    below = "inherit-only" in flags, "no-propagate" in flags
    if only:
        return _(_APPLIES_TO_CLASS[below]).format(name=only["name"] or only["guid"])
    return _(_APPLIES_TO[below])


@page_at("directory/objects/<uuid:object_id>/access-control", "object-access", get="objects.read-access-control")
def access(page: PageContext, object_id: UUID) -> HttpResponseBase:
    record = find_object(page, object_id)
    control = page.perform("objects.read-access-control", id=object_id)
    return render_object(
        page,
        record,
        "access",
        control=control,
        is_deletion_protected=_is_deletion_protected(control),
        own=access_control_rows(entry for entry in control["entries"] if not entry["inherited"]),
        inherited=access_control_rows(entry for entry in control["entries"] if entry["inherited"]),
    )


@page_at(
    "directory/objects/<uuid:object_id>/delegations", "object-delegations", get="organization-units.read-delegations"
)
def delegations(page: PageContext, object_id: UUID) -> HttpResponseBase:
    record, is_inherited = find_object(page, object_id), page.query.get("inherited") == "true"
    query = {"inherited": "true" if is_inherited else "false"}
    found = page.perform("organization-units.read-delegations", id=object_id, query=query)["items"]
    items = [
        (item["principal"], [(task, access_control_rows(task["entries"])) for task in item["tasks"]]) for item in found
    ]
    return render_object(page, record, "delegations", items=items, inherited=is_inherited)


@page_at("directory/objects/<uuid:object_id>/who-can", "object-who-can", get="objects.who-can")
def who_can(page: PageContext, object_id: UUID) -> HttpResponseBase:
    """Who can change the object: through the gateway, by approving that, and in the directory itself."""
    record = find_object(page, object_id)
    found = page.list_page("objects.who-can", id=object_id)
    keys = {item["id"]: item["name"] for item in found["items"]}
    return render_object(
        page,
        record,
        "who_can",
        found=found,
        approvers=[(each["name"], [keys[key] for key in each["barredKeys"]]) for each in found["approvers"]],
        trustees=found["trustees"] and [(each, _actions_by_way(each["actions"])) for each in found["trustees"]],
        action=page.query["action"],
    )


def _actions_by_way(actions: Iterable[Mapping[str, Any]]) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """What a trustee can do, by what it rests on, in words."""
    found: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for action in actions:
        found[_WAYS[action["by"]]].append(action)
    return [(_(way), some) for way, some in found.items()]


@page_at(
    "directory/objects/<uuid:object_id>/deletion-protection",
    "object-deletion-protection",
    get="objects.read-access-control",
)
def deletion_protection(page: PageContext, object_id: UUID) -> HttpResponse:
    """The badge of an object that is protected from accidental deletion; it loads after the page."""
    control = page.perform("objects.read-access-control", id=object_id)
    return page.render("directory/objects/_deletion_protection.html", {"is_protected": _is_deletion_protected(control)})


def _is_deletion_protected(control: Mapping[str, Any]) -> bool:
    """Whether an entry denies Everyone deletion: the admin tools' "Protect object from accidental deletion"."""
    return any(
        entry["type"] == "deny"
        and entry["principal"]["sid"] == EVERYONE_SID
        and entry["appliesTo"] is None
        and "inherit-only" not in entry["flags"]
        and not {"delete", "delete-tree"}.isdisjoint(entry["rights"])
        for entry in control["entries"]
    )
