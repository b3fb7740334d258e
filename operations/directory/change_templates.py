"""Templates for joiners, movers and leavers: named lists of changes that people use in the console.

`directory.queries.filters_and_templates` checks their contents. Using a template is not an operation; each of its
changes is.
"""

from typing import Annotated, Any, Literal
from uuid import UUID

from django.db.models.functions import Lower
from pydantic import Field
from typing_extensions import TypedDict

from active_directory import Entry
from core.call import Call
from core.database import own_rows
from core.errors import InvalidRequest
from core.operation import Target, administration, rest_operation
from core.paging import Page, PageQuery, page_of
from core.shapes import Body, Id, Moment, PartialUpdate, as_record, documented_as, example
from core.text.messages import message
from directory.models.filters_and_templates import ChangeTemplate
from directory.queries.filters_and_templates import (
    find_template,
    find_template_groups,
    find_template_parent,
    require_template_attributes,
    template_object_names,
    visible_templates,
)
from directory.shapes.inputs import MAX_NAMES
from directory.shapes.placeholders import placeholders_to_fill

MANAGE = "directory.manage_changetemplate"
USE = frozenset(
    f"directory.{name}"
    for name in ("create_user", "update_user", "move_object", "manage_membership", "enable_account", "disable_account")
)
"""Any of these permissions is enough to see templates: each allows a change that templates can contain."""
_MAX_GROUPS, _MAX_VALUES = 50, 20

TemplateName = Annotated[
    str, Field(min_length=1, max_length=100, pattern=r"\S", description="Unique in the directory.")
]
Meaning = Annotated[str, Field(max_length=500, description="For whom it is, in words.")]
OccasionName = Annotated[
    Literal["joiner", "mover", "leaver"],
    Field(description="`joiner` makes a new account, unless it is used on one that is there."),
]
Place = Annotated[
    str | None,
    Field(description="UUID or distinguished name; kept by objectGUID. null: whoever uses it says where, or nowhere."),
]
Groups = Annotated[
    list[str],
    Field(max_length=_MAX_GROUPS, description="UUIDs or distinguished names of groups; kept by objectGUID."),
]
LeavesOthers = Annotated[
    bool, Field(description="Whether all other groups are left, but for the primary one and those it joins.")
]
TemplateValues = Annotated[
    dict[str, Annotated[list[Annotated[str, Field(min_length=1, max_length=1000)]], Field(max_length=_MAX_VALUES)]],
    Field(
        max_length=MAX_NAMES,
        description="The values that attributes get. `{office}` is asked for at each use, `{mobile?}` may stay empty; "
        "`{first name}`, `{last name}`, `{name}`, `{account name}` and `{today}` are known. Without values an "
        "attribute is cleared.",
    ),
]
AccountPart = Annotated[
    Literal["keep", "enable", "disable"], Field(description="What becomes of the account; a new one is disabled.")
]


class CreateChangeTemplate(Body):
    model_config = example(
        name="Joiner Sales",
        occasion="joiner",
        description="Everybody who begins in Sales.",
        parent="OU=Sales,OU=Staff,DC=corp,DC=example,DC=com",
        joins=["CN=Sales,OU=Groups,DC=corp,DC=example,DC=com"],
        attributes={"department": ["Sales"], "physicalDeliveryOfficeName": ["{office}"]},
    )

    name: TemplateName
    occasion: OccasionName
    description: Meaning = ""
    parent: Place = None
    joins: Groups = []
    leaves: Groups = []
    leaves_others: LeavesOthers = False
    attributes: TemplateValues = {}
    account: AccountPart = "keep"


class UpdateChangeTemplate(CreateChangeTemplate, PartialUpdate):
    """A member that is left out stays as it is."""

    model_config = example(joins=["CN=Sales,OU=Groups,DC=corp,DC=example,DC=com"], account="enable")


class TemplateObject(TypedDict):
    """An object that a template names; null where it is gone, or not the caller's to see."""

    id: Id
    distinguishedName: str | None


class ChangeTemplateRecord(TypedDict):
    """A template. `asks` are the placeholders that have to be filled in at each use."""

    id: Id
    version: str
    name: str
    occasion: Annotated[str, documented_as(OccasionName)]
    description: str
    parent: TemplateObject | None
    joins: list[TemplateObject]
    leaves: list[TemplateObject]
    leavesOthers: bool
    attributes: dict[str, list[str]]
    account: Annotated[str, documented_as(AccountPart)]
    asks: list[str]
    createdAt: Moment | None
    changedAt: Moment | None


@rest_operation(
    "change-templates.list",
    "GET ad/change-templates",
    "List change templates",
    permission=USE | {MANAGE},
    target=Target.DIRECTORY,
)
def list_change_templates(call: Call, *, query: PageQuery) -> Page[ChangeTemplateRecord]:
    """List the templates of this directory for who joins, moves or leaves, by name."""
    rows = visible_templates(call).annotate(lower_name=Lower("name"))
    page: Page[ChangeTemplate] = page_of(call, rows, query=query, order=("lower_name", "id"), render=lambda row: row)
    names = template_object_names(call, page["items"])
    return {**page, "items": [_rendered(row, names) for row in page["items"]]}


@rest_operation(
    "change-templates.read",
    "GET ad/change-templates/{id}",
    "Read {a change template}",
    permission=USE | {MANAGE},
    target=Target.DIRECTORY,
)
def read_change_template(call: Call, *, id: UUID) -> ChangeTemplateRecord:
    """Read one template with the present names of its place and groups."""
    return _record(call, find_template(call, id))


@administration(
    "change-templates.create",
    "POST ad/change-templates",
    "Create {a change template}",
    permission=MANAGE,
    target=Target.DIRECTORY,
    creates=True,
)
def create_change_template(call: Call, *, body: CreateChangeTemplate) -> ChangeTemplateRecord:
    """Keep a list of changes under a name. Who uses it needs the permissions of its changes."""
    assert call.directory is not None
    return _save(call, ChangeTemplate(connection_id=call.directory.id), dict(body))


@administration(
    "change-templates.update",
    "PATCH ad/change-templates/{id}",
    "Update {a change template}",
    permission=MANAGE,
    target=Target.DIRECTORY,
)
def update_change_template(call: Call, *, id: UUID, body: UpdateChangeTemplate) -> ChangeTemplateRecord:
    """Change a template. What was done with it before stays as it is."""
    return _save(call, find_template(call, id), body.sent_values())


@administration(
    "change-templates.delete",
    "DELETE ad/change-templates/{id}",
    "Delete {a change template}",
    permission=MANAGE,
    target=Target.DIRECTORY,
)
def delete_change_template(call: Call, *, id: UUID) -> None:
    """Delete a template. What was done with it stays as it is."""
    find_template(call, id).delete()


def _save(call: Call, row: ChangeTemplate, given: dict[str, Any]) -> ChangeTemplateRecord:
    """Check the given members and save them; raises Conflict for a name that is taken."""
    if "parent" in given:
        text = given.pop("parent")
        parent = None if text is None else find_template_parent(call, text)
        row.parent_guid, row.parent_dn = (None, "") if parent is None else (parent.guid, parent.dn)
    for member in ("joins", "leaves"):
        if member in given:
            given[member] = [_reference_to(group) for group in find_template_groups(call, member, given[member])]
    if "attributes" in given:
        require_template_attributes(call, given["attributes"])
    own_rows.assign(row, given)
    if both := {group["id"] for group in row.joins} & {group["id"] for group in row.leaves}:
        raise InvalidRequest.naming(message("{count} of them are also joined", count=len(both)), pointer="#/leaves")
    own_rows.save(row, taken=f"There is a template called {row.name} for this directory already.")
    return _record(call, row)


def _reference_to(group: Entry) -> dict[str, str]:
    return {"id": str(group.guid), "distinguishedName": group.dn}


def _record(call: Call, row: ChangeTemplate) -> ChangeTemplateRecord:
    return _rendered(row, template_object_names(call, [row]))


def _rendered(row: ChangeTemplate, names: dict[UUID, str]) -> ChangeTemplateRecord:
    def as_object(id: UUID) -> TemplateObject:
        return {"id": str(id), "distinguishedName": names.get(id)}

    return as_record(
        ChangeTemplateRecord,
        row,
        version=str(row.revision),
        parent=None if row.parent_guid is None else as_object(row.parent_guid),
        joins=[as_object(UUID(group["id"])) for group in row.joins],
        leaves=[as_object(UUID(group["id"])) for group in row.leaves],
        asks=[
            each.name for each in placeholders_to_fill(value for values in row.attributes.values() for value in values)
        ],
    )
