"""The actions on a selection of objects, and the changes that each makes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from active_directory import Equals, Or
from console.directory.objects.form import Record
from console.directory.selection.tasks import Step, Task
from console.page_context import PageContext
from core.errors import FieldError, GatewayError, InvalidRequest
from core.shapes import parse_guid
from core.text.vocabulary import declare_texts, texts_by_name
from directory.shapes.kinds import Kind
from directory.shapes.wording.labels import label_of
from directory.shapes.wording.value_words import common_name

MAX_OBJECTS = 200
"""Objects of one selection. For more, use a run or an integration."""
_READ_AT_ONCE = 50
_RESOURCES = {Kind.USER: "users", Kind.COMPUTER: "computers"}
"""The resources whose accounts can be enabled, disabled and unlocked, by kind."""


class Action(NamedTuple):
    """An action. Its texts are in English; they are translated where they are shown.

    The person needs one of `operations`. `asks` names the form that the action needs. `title` is the question of its
    task. The button says `confirm` (by default the label) for one change and `confirm_many` for several. `did` is said
    at the end, and `says` describes each change.
    """

    name: str
    label: str
    operations: tuple[str, ...]
    asks: str = ""
    title: str = ""
    confirm: str = ""
    confirm_many: str = ""
    did: str = ""
    says: str = ""
    is_dangerous: bool = False


_JOIN_OR_UPDATE = ("users.update", "groups.change-members")
ACTIONS = {
    action.name: action
    for action in (
        Action(
            "enable",
            "Enable",
            ("users.enable", "computers.enable"),
            title="Enable {objects}?",
            confirm_many="Enable all {}",
            did="enabled",
            says="Disabled → Enabled",
        ),
        Action(
            "disable",
            "Disable",
            ("users.disable", "computers.disable"),
            title="Disable {objects}?",
            confirm_many="Disable all {}",
            did="disabled",
            says="Enabled → Disabled",
            is_dangerous=True,
        ),
        Action(
            "unlock",
            "Unlock",
            ("users.unlock", "computers.unlock"),
            title="Unlock {objects}?",
            confirm_many="Unlock all {}",
            did="unlocked",
            says="Locked out → Unlocked",
        ),
        Action(
            "move",
            "Move",
            ("objects.move",),
            asks="place",
            title="Move {objects}?",
            confirm_many="Move all {}",
            did="moved",
        ),
        Action(
            "join",
            "Add to groups",
            ("groups.change-members",),
            asks="groups",
            title="Add {objects} to {groups}?",
            confirm="Add to the group",
            confirm_many="Add to {} groups",
            did="{count} added",
        ),
        Action(
            "set",
            "Set an attribute",
            ("objects.update",),
            asks="attribute",
            title="Set {attribute} of {objects}?",
            confirm="Change it",
            confirm_many="Change all {}",
            did="changed",
        ),
        Action("joiner", "Joiner…", _JOIN_OR_UPDATE),
        Action("mover", "Mover…", _JOIN_OR_UPDATE),
        Action("leaver", "Leaver…", ("users.disable",)),
        Action("template", "By a template…", ("change-templates.list",)),
        Action("export", "Export as CSV", ("objects.search",)),
    )
}
"""In the order of a day's work."""
declare_texts(
    text
    for action in ACTIONS.values()
    for text in (action.label, action.title, action.confirm, action.confirm_many, action.did, action.says)
)
_CLEAR = "Clear {attribute} of {objects}?"
_UNKNOWN = texts_by_name(
    {
        "users": "{name} is not a user that you can see",
        "groups": "{name} is not a group that you can see",
    }
)


def actions_for(page: PageContext) -> list[Action]:
    """The actions that the person may apply to selected objects."""
    return [action for action in ACTIONS.values() if any(map(page.may, action.operations))]


def filter_for_ids(ids: Iterable[str]) -> str:
    """The filter that finds the objects with these ids; raises InvalidRequest without a valid id, and for too many."""
    guids = list(dict.fromkeys(guid for text in ids if (guid := parse_guid(text)) is not None))
    if not guids:
        raise InvalidRequest(_("Choose at least one object."))
    if len(guids) > MAX_OBJECTS:
        text = _("{count} objects are chosen; at most {most} can be changed together.")
        raise InvalidRequest(text.format(count=len(guids), most=MAX_OBJECTS))
    return str(Or(*(Equals("objectGUID", guid.bytes_le) for guid in guids)))


def find_chosen(page: PageContext, ids: Sequence[str], *further: str) -> list[Record]:
    """The chosen objects as they are now, by name, with `further` attributes; invisible ones are missing."""
    filter_for_ids(ids)  # no part below could see that they are too many
    found: list[Record] = []
    for start in range(0, len(ids), _READ_AT_ONCE):
        query = {
            "filter": filter_for_ids(ids[start : start + _READ_AT_ONCE]),
            "attributes": ",".join(("objectSid", "primaryGroupID", *further)),
            "pageSize": "100",
        }
        found += page.perform("objects.search", query=query)["items"]
    return sorted(found, key=lambda record: record["name"].casefold())


def plan_task(
    page: PageContext, action: Action, records: Sequence[Record], given: Mapping[str, Any], *, then: str
) -> Task:
    """The task of an action; `given` are the values of its form. Raises GatewayError naming a wrong field."""
    if not records:
        raise InvalidRequest(_("None of the chosen objects is there any more."))
    if action.name == "join":
        steps, left_out = list(_membership_steps(page, records, given["groups"])), []
    else:
        steps = [step for record in records if (step := _step(action, record, given)) is not None]
        changed = {step.object_id for step in steps}
        why = _("it has no account that this could change")
        left_out = [(record["name"], why) for record in records if record["id"] not in changed]
    title = _CLEAR if action.name == "set" and not given["values"] else action.title
    return Task(
        title=_(title).format(
            objects=_count_objects(len(records) - len(left_out)),
            groups=ngettext("{count} group", "{count} groups", len(steps)).format(count=len(steps)),
            attribute=given["attribute"],
        ),
        confirm=_(action.confirm or action.label),
        confirm_many=_(action.confirm_many),
        did=_(action.did).format(count=len(records)),
        steps=steps,
        left_out=left_out,
        is_dangerous=action.is_dangerous,
        then=then,
    )


def _step(action: Action, record: Record, given: Mapping[str, Any]) -> Step | None:
    """The change of one object; None if the action needs an account and the object has none."""
    match action.name:
        case "move":
            parent = _required(given, "parent")
            return step_for("objects.move", record, {"parent": parent}, says=f"→ {common_name(parent)}")
        case "set":
            name, values = _required(given, "attribute"), given["values"]
            shown = ", ".join(values) or _("no value")
            document = {"replace": {name: values}} if values else {"clear": [name]}
            return step_for("objects.update", record, document, says=f"{label_of(name)} → {shown}")
    if record["kind"] not in _RESOURCES:
        return None
    return step_for(f"{_RESOURCES[record['kind']]}.{action.name}", record, {}, says=_(action.says))


def step_for(operation: str, record: Record, document: Mapping[str, Any], *, says: str = "") -> Step:
    """The change of one object: an operation with a body; `says` describes it."""
    return Step(
        operation=operation,
        document={"id": record["id"], **document},
        name=record["name"],
        place=record["distinguishedName"],
        object_id=record["id"],
        says=says,
    )


def _count_objects(count: int) -> str:
    return ngettext("{count} object", "{count} objects", count).format(count=count)


def _required(given: Mapping[str, Any], name: str) -> str:
    if not (text := str(given.get(name, "")).strip()):
        raise refused_field(name, "must not be blank")
    return text


def refused_field(name: str, detail: str) -> InvalidRequest:
    """A refusal of one field of a form; the page shows the detail beside it."""
    return InvalidRequest(errors=[FieldError(InvalidRequest.code, detail, pointer=f"#/{name}")])


def find_named(page: PageContext, resource: str, text: str, attributes: Iterable[str], *, field: str) -> Record:
    """The user or group that a form's field names by UUID or distinguished name.

    Raises InvalidRequest naming the field.
    """
    query = {"attributes": ",".join(attributes)}
    is_id = parse_guid(text) is not None
    try:
        found: Record = (
            page.perform(f"{resource}.read", id=text, query=query)
            if is_id
            else page.perform(f"{resource}.read-by-dn", query={"dn": text, **query})
        )
    except GatewayError as refusal:
        detail = _(_UNKNOWN[resource]).format(name=text) if text.strip() else "must not be blank"
        raise refused_field(field, detail) from refusal
    return found


def _membership_steps(page: PageContext, records: Sequence[Record], groups: Sequence[str]) -> Iterator[Step]:
    """One change for each group, which adds all chosen objects."""
    named = [text.strip() for text in groups if text.strip()]
    if not named:
        raise refused_field("group", "must not be blank")
    added = records[0]["name"] if len(records) == 1 else _count_objects(len(records))
    document, says = {"add": [record["id"] for record in records]}, _("Add {name}").format(name=added)
    for text in dict.fromkeys(named):
        group = find_named(page, "groups", text, ("objectSid",), field="group")
        yield step_for("groups.change-members", group, document, says=says)
