"""The page of a directory object: what it is, all of its attributes, its history. What is done with it is elsewhere.

`frame_of` makes what all pages of an object have: its name and place, what to know of it, what can be done, its tabs.
"""

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpResponse, HttpResponseBase
from django.urls import path, reverse
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from active_directory import DistinguishedName, Equals
from console.directory.objects.fields import ONLY_SHOWN, READ, SECTIONS, Field
from console.directory.readable_attributes import readable_among
from console.page_context import PageContext, console_page, page_address
from core.errors import Forbidden, NotFound
from core.operation import find_operation
from core.text.vocabulary import capitalized, noun_label
from directory.errors import AttributeNotReadable, ObjectNotFound
from directory.shapes import kinds
from directory.shapes.kinds import Kind, permission_for
from directory.shapes.wording.explained_values import explained
from directory.shapes.wording.value_words import group_words

Record = Mapping[str, Any]

_CONTAINERS: Final = frozenset({"organizationalUnit", "container", "domainDNS", "builtinDomain"})
_WITH_ACCOUNT: Final = frozenset({"sAMAccountName", "userPrincipalName"})
_HISTORY_AT_ONCE: Final = "25"
_WAITING_SHOWN: Final = "5"


def resource_of(record: Record) -> str:
    """What the operations on objects of its kind are called by."""
    return kinds.resource_of(record["kind"])


def operation_on(record: Record, action: str) -> str:
    """The operation on objects of its kind; raises NotFound where they have none: an address is easily changed."""
    name = f"{resource_of(record)}.{action}"
    try:
        return find_operation(name).name
    except KeyError:
        raise NotFound from None


def find(page: PageContext, object_id: UUID, *further: str) -> Record:
    """The object with what its pages show of it, and further attributes; raises as `objects.read`.

    What the person may not read of it, because the schema marks it confidential, has no values.
    """
    names = (*READ.split(","), *further)
    try:
        record: Record = page.perform("objects.read", id=object_id, query={"attributes": ",".join(names)})
    except AttributeNotReadable:
        attributes = ",".join(readable_among(page, names))
        record = page.perform("objects.read", id=object_id, query={"attributes": attributes})
        return {**record, "attributes": {**{name: [] for name in names}, **record["attributes"]}}
    return record


def may_change(page: PageContext, record: Record) -> bool:
    """Whether the object's protection lets the person change it at all."""
    return not record["protected"] or page.call.may("directory.manage_protected")


def require(page: PageContext, permission: str) -> None:
    """Refuse a form to whom its change would be refused. Raises Forbidden."""
    if not page.call.may(permission):
        raise Forbidden


def is_container(record: Record) -> bool:
    return not _CONTAINERS.isdisjoint(record["objectClass"])


@dataclass(frozen=True, slots=True)
class ObjectAction:
    """Something that can be done with an object; or a tab of it, by the name of its view."""

    label: str
    address: str
    view: str = ""
    dangerous: bool = False


def frame_of(page: PageContext, record: Record, tab: str = "object") -> dict[str, Any]:
    """What every page of an object shows around its own; `tab` is the view it is."""
    return {
        "record": record,
        "kind_words": _kind_words(record),
        "path": path_to(record["distinguishedName"]),
        "badges": list(_badges(record)),
        "may_change": may_change(page, record),
        "actions": list(_actions(page, record)) if may_change(page, record) else [],
        "is_container": is_container(record),
        "tabs": list(_tabs(page, record)),
        "tab": tab,
    }


def _kind_words(record: Record) -> str:
    if record["kind"] == Kind.OBJECT:
        return _("Object of the class {name}").format(name=record["objectClass"][-1])
    return capitalized(noun_label(record["kind"]))


def path_to(distinguished_name: str) -> list[tuple[str, str]]:
    """The containers an object is in, from the domain down: what each is called, and its distinguished name."""
    containers: list[tuple[str, str]] = []
    name = DistinguishedName.parse(distinguished_name).parent
    while name is not None and name.rdns:
        if name.rdn_attribute.upper() == "DC":
            containers.append((".".join(rdn[0][1] for rdn in name.rdns), str(name)))
            break
        containers.append((name.rdn_value, str(name)))
        name = name.parent
    return containers[::-1]


def _badges(record: Record) -> Iterator[tuple[str, str]]:
    """What to know of an object at once, each with the class of its badge."""
    if record["protected"]:
        yield _("Protected"), "security"
    account, group = record["account"], record["group"]
    if account is not None:
        yield (_("Enabled"), "good") if account["enabled"] else (_("Disabled"), "bad")
        if account["lockedOut"]:
            yield _("Locked out"), "bad"
        if _is_past(account["expiresAt"]):
            yield _("Account expired"), "bad"
        if account["mustChangePassword"]:
            yield _("Must change password"), "warn"
        if account["passwordExpired"]:
            yield _("Password expired"), "warn"
        if account["passwordNeverExpires"]:
            yield _("Password never expires"), ""
    if group is not None:
        yield capitalized(group_words(group)), ""


SCOPES: Final = {
    "global": gettext_noop("Global"),
    "domainLocal": gettext_noop("Domain-local"),
    "universal": gettext_noop("Universal"),
}


def _is_past(moment: str | None) -> bool:
    parsed = parse_datetime(moment) if moment else None
    return parsed is not None and parsed < datetime.now(UTC)


def _tabs(page: PageContext, record: Record) -> Iterator[ObjectAction]:
    resource = resource_of(record)
    views = {"object": _("Overview"), "object-attributes": _("All attributes")}
    if resource == "groups":
        views["object-members"] = _("Members")
    if resource in ("users", "groups", "computers"):
        views["object-groups"] = _("Member of")
    if resource == "organization-units" and page.may("organization-units.read-delegations"):
        views["object-delegations"] = _("Delegations")
    if page.may("objects.read-access-control"):
        views["object-access"] = _("Access control")
    if all(page.call.may(each) for each in ("keys.view_apikey", "keys.view_person")):
        views["object-who-can"] = _("Who can")
    if page.may("objects.history"):
        views["object-history"] = _("History")
    for view, label in views.items():
        yield ObjectAction(label, _address(view, record), view=view)


def _address(view: str, record: Record, **arguments: str) -> str:
    return reverse(f"console:{view}", kwargs={"object_id": record["id"], **arguments})


def _actions(page: PageContext, record: Record) -> Iterator[ObjectAction]:
    """What the person may do with the object, as far as can be told before it is tried."""
    resource, kind, account = resource_of(record), record["kind"], record["account"]
    if page.call.may(permission_for("update", kind)):
        yield ObjectAction(_("Edit"), _address("object-edit", record))
    if resource in ("users", "computers"):
        action = "disable" if account["enabled"] else "enable"
        if page.may(f"{resource}.{action}"):
            yield ObjectAction(_(action.capitalize()), _address(f"object-{action}", record))
        if account["lockedOut"] and page.may(f"{resource}.unlock"):
            yield ObjectAction(_("Unlock"), _address("object-unlock", record))
    if resource == "users" and page.may("users.reset-password"):
        yield ObjectAction(_("Reset password"), _address("object-reset-password", record))
    if page.may("objects.move"):
        yield ObjectAction(_("Move"), _address("object-move", record))
    if page.call.may(permission_for("update", kind)):
        yield ObjectAction(_("Rename"), _address("object-rename", record))
    if resource == "organization-units" and page.may("organization-units.plan-accounts"):
        yield ObjectAction(_("Enable or disable the accounts here"), f"{page_address('run-new')}?unit={record['id']}")
    if resource == "users" and page.may("groups.change-members"):
        yield ObjectAction(_("Compare"), _address("object-compare", record))
    if resource == "users" and any(map(page.may, ("users.update", "users.disable", "groups.change-members"))):
        chosen = urlencode({"chosen": record["id"], "from": _address("object", record)})
        yield ObjectAction(_("Joiner, mover, leaver"), f"{page_address('selection-recipes')}?{chosen}")
    if page.call.may(permission_for("delete", kind)):
        yield ObjectAction(_("Delete"), _address("object-delete", record), dangerous=True)


@console_page()
def show(page: PageContext, object_id: UUID) -> HttpResponseBase:
    """The overview: what people ask for first, by kind."""
    try:
        record = find(page, object_id, "thumbnailPhoto")
    except ObjectNotFound as refusal:
        return _gone(page, object_id, refusal)
    kind = record["kind"]
    sections = [(section.title, _filled(record, section.fields)) for section in SECTIONS[kind]]
    sections.append(
        (_TITLES.get(record["kind"], gettext_noop("Written by others")), _filled(record, ONLY_SHOWN.get(kind, ())))
    )
    waiting = {"target": str(object_id), "status": "pending", "pageSize": _WAITING_SHOWN}
    return page.render(
        "directory/objects/overview.html",
        {
            **frame_of(page, record),
            "waiting": page.perform("change-requests.search", query=waiting)["items"],
            "sections": [(title, fields) for title, fields in sections if fields],
            "scope": _(SCOPES[record["group"]["scope"]]) if record["group"] else None,
            "photo": photo_of(record),
            "links_shown": _LINKS_SHOWN,
            "reports_filter": str(Equals("manager", record["distinguishedName"])),
        },
    )


def photo_of(record: Record) -> str | None:
    """The thumbnail photo as the address of an image; None for what a browser would take for something else."""
    content = next(iter(record["attributes"]["thumbnailPhoto"]), "")
    kind = next((kind for beginning, kind in _IMAGES.items() if content.startswith(beginning)), None)
    return f"data:image/{kind};base64,{content}" if kind else None


_IMAGES: Final = {"/9j/": "jpeg", "iVBORw0KGgo": "png", "R0lGOD": "gif"}
"""How images of these kinds begin, in base64."""
_LINKS_SHOWN: Final = 12
_TITLES: Final = {Kind.USER: gettext_noop("Team")}
"""What the section of attributes that others write is called."""


def _filled(record: Record, fields: Sequence[Field]) -> list[tuple[Field, list[str]]]:
    """The fields that have values, but for those shown with the account."""
    apart = _WITH_ACCOUNT if record["account"] else frozenset()
    found = ((field, record["attributes"][field.attribute]) for field in fields if field.attribute not in apart)
    return [(field, values) for field, values in found if values]


def _gone(page: PageContext, object_id: UUID, refusal: ObjectNotFound) -> HttpResponse:
    """An object that is not there (any more): what the log knows of it; raises the refusal if that is nothing."""
    records = (
        page.perform("objects.history", id=object_id, query={"pageSize": _HISTORY_AT_ONCE})["items"]
        if page.may("objects.history")
        else []
    )
    if not records:
        raise refusal
    return page.render("directory/objects/gone.html", {"records": records}, status=404)


@console_page(get="objects.read-by-dn")
def by_name(page: PageContext) -> HttpResponseBase:
    """The way from a distinguished name to its object's page."""
    query = {"dn": page.query.get("dn", ""), "attributes": "objectSid"}
    return page.redirect("object", object_id=page.perform("objects.read-by-dn", query=query)["id"])


@dataclass(frozen=True, slots=True)
class Shown:
    """A value of an attribute. `type` is the schema's; `size` that of a binary one, in bytes, whose base64 it is."""

    text: str
    type: str
    size: int = 0


@console_page()
def attributes(page: PageContext, object_id: UUID) -> HttpResponseBase:
    """Everything that can be read of an object, each value by what it stands for."""
    record = page.perform("objects.read", id=object_id, query={"attributes": "*"})
    described = page.perform("schema.list-attributes")["items"]
    types = {item["name"]: item["type"] for item in described}
    rows = [
        (name, [_shown(name, value, types.get(name, "text")) for value in values])
        for name, values in sorted(record["attributes"].items(), key=lambda item: item[0].lower())
        if values
    ]
    return page.render(
        "directory/objects/attributes.html", {**frame_of(page, record, "object-attributes"), "rows": rows}
    )


_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}T[\d:.]+Z")


def _shown(name: str, value: str, kind: str) -> Shown:
    if kind == "binary":
        return Shown(value, kind, size=len(base64.b64decode(value)))
    if kind == "time" and not _MOMENT.fullmatch(value):  # "never"
        return Shown(value, "text")
    return Shown(explained(name, value), kind)


@console_page()
def history(page: PageContext, object_id: UUID) -> HttpResponseBase:
    """What was done with the object, newest first, each change to be reverted where that can be."""
    record = find(page, object_id)
    found = page.perform("objects.history", id=object_id, query={"pageSize": _HISTORY_AT_ONCE, **page.query})
    return page.render("directory/objects/history.html", {**frame_of(page, record, "object-history"), "found": found})


urls = [
    path("directory/objects/by-dn", by_name, name="object-by-dn"),
    path("directory/objects/<uuid:object_id>", show, name="object"),
    path("directory/objects/<uuid:object_id>/attributes", attributes, name="object-attributes"),
    path("directory/objects/<uuid:object_id>/history", history, name="object-history"),
]
