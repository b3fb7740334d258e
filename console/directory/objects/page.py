"""The pages of an object that only show it: overview, all attributes, history. Other modules change objects.

`render_object` renders what all of an object's pages have: name and place, badges, actions and tabs.
"""

import base64
import re
from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpResponse, HttpResponseBase
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from active_directory import DistinguishedName, Equals
from console.directory.membership_rules import rule_of_group
from console.directory.objects.form import READ_ATTRIBUTES, READ_ONLY, SECTIONS, Field, Record
from console.page_context import PageContext, page_at, page_url
from console.shared.wording import change_request_facts
from core.errors import Forbidden, NotFound
from core.operation import find_operation
from core.text.vocabulary import texts_by_name
from directory.errors import AttributeNotReadable, ObjectNotFound
from directory.shapes import kinds
from directory.shapes.kinds import Kind, permission_for
from directory.shapes.wording.change_words import describe_change
from directory.shapes.wording.value_words import parse_name, with_bit_names

GROUP_SCOPES = texts_by_name(
    {
        "global": "Global",
        "domainLocal": "Domain-local",
        "universal": "Universal",
    }
)
"""The labels of groups' scopes."""
_CONTAINERS = frozenset({"organizationalUnit", "container", "domainDNS", "builtinDomain"})
_RESOURCES_IN_GROUPS = ("users", "groups", "computers")
_ACCOUNT_NAMES = frozenset({"sAMAccountName", "userPrincipalName"})
_TABS = frozenset({"attributes", "members", "groups", "delegations", "access", "who_can", "history", "timeline"})
"""The templates of the tabs besides the overview."""
_HISTORY_AT_ONCE = "25"
_WAITING_SHOWN = "5"
_LINKS_SHOWN = 12
_IMAGES = {"/9j/": "jpeg", "iVBORw0KGgo": "png", "R0lGOD": "gif"}
"""The beginnings of base64-encoded images, by their magic numbers."""
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}T[\d:.]+Z")


def resource_of(record: Record) -> str:
    """The resource of the object's kind, with which the ids of its operations begin."""
    return kinds.resource_of(record["kind"])


def operation_for(record: Record, action: str) -> str:
    """The operation for an action on the object's kind. Raises NotFound if it has none: anybody can edit a URL."""
    name = f"{resource_of(record)}.{action}"
    try:
        return find_operation(name).name
    except KeyError:
        raise NotFound from None


def find_object(page: PageContext, object_id: UUID, *further: str) -> Record:
    """The object with the attributes that its pages show, and `further` ones; raises as `objects.read`.

    Attributes that the person may not read, such as confidential ones, have no values.
    """
    names = (*READ_ATTRIBUTES.split(","), *further)

    def read(names: Iterable[str]) -> Record:
        record: Record = page.perform("objects.read", id=object_id, query={"attributes": ",".join(names)})
        return record

    try:
        return read(names)
    except AttributeNotReadable:
        record = read(readable_attributes(page, names))
    return {**record, "attributes": {**{name: [] for name in names}, **record["attributes"]}}


def readable_attributes(page: PageContext, names: Iterable[str]) -> list[str]:
    """The attributes that the person may read. Call it only after a read was refused: it reads the whole schema."""
    known = {item["name"].lower() for item in page.perform("schema.list-attributes")["items"]}
    return [name for name in names if name.lower() in known]


def may_change(page: PageContext, record: Record) -> bool:
    """Whether the object's protection lets the person change it at all."""
    return not record["protected"] or page.call.may("directory.manage_protected")


def require_permission(page: PageContext, permission: str) -> None:
    """Raise Forbidden for a form whose change would be refused."""
    if not page.call.may(permission):
        raise Forbidden


def object_url(record: Record, view: str) -> str:
    """The URL of the object's view `object-{view}`."""
    return page_url(f"object-{view}", object_id=record["id"])


def direct_groups(page: PageContext, record: Record) -> list[Record]:
    """The object's direct groups by name; `record` needs primaryGroupID. Kinds without groups have none.

    The primary group is left out: it is stored in primaryGroupID, not in the group's `member`.
    """
    resource = resource_of(record)
    if resource not in _RESOURCES_IN_GROUPS:
        return []
    query = {"sort": "name", "pageSize": "1000", "attributes": "objectSid,description", "nested": "false"}
    found: list[Record] = page.perform(f"{resource}.list-groups", id=record["id"], query=query)["items"]
    return [group for group in found if not is_primary_group(group, record)]


def is_primary_group(group: Record, member: Record) -> bool:
    """Whether it is the member's primary group: primaryGroupID is the RID, the last part of the group's SID."""
    sids, numbers = group["attributes"]["objectSid"], member["attributes"]["primaryGroupID"]
    return bool(sids and numbers) and str(sids[0]).rpartition("-")[2] == numbers[0]


class ObjectAction(NamedTuple):
    """An action on an object, with the URL of its page."""

    label: str
    address: str
    is_offered: bool
    is_dangerous: bool = False


def render_object(page: PageContext, record: Record, template: str, **context: Any) -> HttpResponse:
    """Render a page of an object from a template in `directory/objects/`; a tab's template has the name of its view."""
    is_changeable = may_change(page, record)
    frame = {
        "record": record,
        "path": container_path(record["distinguishedName"]),
        "may_change": is_changeable,
        "actions": [each for each in _actions(page, record) if each.is_offered] if is_changeable else [],
        "is_container": not _CONTAINERS.isdisjoint(record["objectClass"]),
        "may_see_who_can": all(map(page.call.may, ("keys.view_apikey", "keys.view_person"))),
        "tab": f"object-{template.replace('_', '-')}" if template in _TABS else "object",
    }
    return page.render(f"directory/objects/{template}.html", {**frame, **context})


def domain_of(distinguished_name: str) -> str:
    """The DNS name of a distinguished name's domain, `corp.example.test`; empty for anything else."""
    name = parse_name(distinguished_name)
    return "" if name is None else ".".join(rdn[0][1] for rdn in name.domain.rdns)


def container_path(distinguished_name: str) -> list[tuple[str, str]]:
    """The containers of an object, from the domain down: the label and distinguished name of each."""
    containers: list[tuple[str, str]] = []
    name = DistinguishedName.parse(distinguished_name).parent
    while name is not None and name.rdns:
        if name == name.domain:
            return [(domain_of(str(name)), str(name)), *containers]
        containers.insert(0, (name.rdn_value, str(name)))
        name = name.parent
    return containers


def _actions(page: PageContext, record: Record) -> tuple[ObjectAction, ...]:
    """All actions on the object; `is_offered` says whether the person may, as far as can be known without trying."""
    resource, account = resource_of(record), record["account"] or {}
    is_user, is_switched = resource == "users", resource in ("users", "computers")
    switch = "disable" if account.get("enabled") else "enable"
    may_update, may_delete = (page.call.may(permission_for(each, record["kind"])) for each in ("update", "delete"))
    may_plan = resource == "organization-units" and page.may("organization-units.plan-accounts")
    changes_people = is_user and any(map(page.may, ("users.update", "users.disable", "groups.change-members")))
    recipe = urlencode({"chosen": record["id"], "from": page_url("object", object_id=record["id"])})

    def to(view: str) -> str:
        return object_url(record, view)

    return (
        ObjectAction(_("Edit"), to("edit"), may_update),
        ObjectAction(_(switch.capitalize()), to(switch), is_switched and page.may(f"{resource}.{switch}")),
        ObjectAction(
            _("Unlock"), to("unlock"), is_switched and account["lockedOut"] and page.may(f"{resource}.unlock")
        ),
        ObjectAction(_("Reset password"), to("reset-password"), is_user and page.may("users.reset-password")),
        ObjectAction(_("Move"), to("move"), page.may("objects.move")),
        ObjectAction(_("Rename"), to("rename"), may_update),
        ObjectAction(_("Enable or disable the accounts here"), f"{page_url('run-new')}?unit={record['id']}", may_plan),
        ObjectAction(
            _("Incident: disable everybody"),
            f"{page_url('incident')}?unit={record['id']}",
            may_plan and page.call.may("directory.disable_account"),
            is_dangerous=True,
        ),
        ObjectAction(_("Compare"), to("compare"), is_user and page.may("groups.change-members")),
        ObjectAction(_("Joiner, mover, leaver"), f"{page_url('selection-recipes')}?{recipe}", changes_people),
        ObjectAction(_("Delete"), to("delete"), may_delete, is_dangerous=True),
    )


@page_at("directory/objects/<uuid:object_id>", "object")
def overview(page: PageContext, object_id: UUID) -> HttpResponseBase:
    """The overview: what people need first, by kind."""
    try:
        record = find_object(page, object_id, "thumbnailPhoto")
    except ObjectNotFound:
        # The object may be deleted: show its history. Without a history it never existed.
        query = {"pageSize": _HISTORY_AT_ONCE}
        records = page.may("objects.history") and page.perform("objects.history", id=object_id, query=query)["items"]
        if not records:
            raise
        return page.render("directory/objects/gone.html", {"records": records}, status=404)
    kind = record["kind"]
    of_others = gettext_noop("Team") if kind == Kind.USER else gettext_noop("Written by others")
    sections = [*SECTIONS[kind].items(), (of_others, READ_ONLY.get(kind, ()))]
    apart = _ACCOUNT_NAMES if record["account"] else frozenset()
    filled = (
        (title, [(Field(name), record["attributes"][name]) for name in names if name not in apart])
        for title, names in sections
    )
    shown = ((title, [field for field in fields if field[1]]) for title, fields in filled)
    waiting = {"target": str(object_id), "status": "pending", "pageSize": _WAITING_SHOWN}
    to_come = {"object": str(object_id), "pageSize": _WAITING_SHOWN}
    scheduled = page.perform("change-requests.search-scheduled", query=to_come)["items"]
    return render_object(
        page,
        record,
        "overview",
        waiting=page.perform("change-requests.search", query=waiting)["items"],
        rule=rule_of_group(page, record),
        scheduled=[{**each, "words": describe_change(change_request_facts(each))} for each in scheduled],
        sections=[(title, fields) for title, fields in shown if fields],
        scope=_(GROUP_SCOPES[record["group"]["scope"]]) if record["group"] else None,
        photo=photo_data_url(record),
        links_shown=_LINKS_SHOWN,
        reports_filter=str(Equals("manager", record["distinguishedName"])),
    )


def photo_data_url(record: Record) -> str | None:
    """The thumbnail photo as a `data:` URL; None if it is no JPEG, PNG or GIF."""
    content = next(iter(record["attributes"]["thumbnailPhoto"]), "")
    # The attribute can hold any bytes; other formats, such as SVG, could contain scripts.
    kind = next((kind for beginning, kind in _IMAGES.items() if content.startswith(beginning)), None)
    return f"data:image/{kind};base64,{content}" if kind else None


@page_at("directory/objects/by-dn", "object-by-dn", get="objects.read-by-dn")
def find_by_dn(page: PageContext) -> HttpResponseBase:
    """Redirect from a distinguished name to the object's page."""
    query = {"dn": page.query["dn"], "attributes": "objectSid"}
    return page.redirect("object", object_id=page.perform("objects.read-by-dn", query=query)["id"])


@page_at("directory/objects/<uuid:object_id>/attributes", "object-attributes")
def attributes(page: PageContext, object_id: UUID) -> HttpResponseBase:
    """All readable attributes of an object, each value formatted by its type."""
    record = page.perform("objects.read", id=object_id, query={"attributes": "*"})
    types = {item["name"]: item["type"] for item in page.perform("schema.list-attributes")["items"]}
    rows = [
        (name, [_typed_value(name, value, types.get(name, "text")) for value in values])
        for name, values in sorted(record["attributes"].items(), key=lambda item: item[0].lower())
        if values
    ]
    return render_object(page, record, "attributes", rows=rows)


def _typed_value(name: str, value: str, kind: str) -> dict[str, Any]:
    """A value with its type from the schema; a binary one (base64) with its size in bytes."""
    if kind == "binary":
        return {"text": value, "type": kind, "size": len(base64.b64decode(value))}
    if kind == "time" and not _MOMENT.fullmatch(value):  # "never"
        return {"text": value, "type": "text"}
    return {"text": with_bit_names(name, value), "type": kind}


@page_at("directory/objects/<uuid:object_id>/history", "object-history")
def history(page: PageContext, object_id: UUID) -> HttpResponseBase:
    """What was done with the object, newest first, with links to revert changes."""
    record = find_object(page, object_id)
    found = page.perform("objects.history", id=object_id, query={"pageSize": _HISTORY_AT_ONCE, **page.query})
    return render_object(page, record, "history", found=found)
