"""What can be done with several objects at once, and the changes it is for each of them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext

from active_directory import Equals, Or
from console.directory.selection.tasks import Step, Task
from console.page_context import PageContext
from console.shared.names import common_name
from core.errors import FieldError, GatewayError, InvalidRequest
from core.shapes import parse_guid
from directory.shapes.kinds import Kind
from directory.shapes.wording.attribute_labels import label_of

Record = Mapping[str, Any]

MOST: Final = 200
"""Objects of one selection. More at once are a run's, or an integration's."""
_AT_ONCE: Final = 50
_RESOURCES: Final = {Kind.USER: "users", Kind.COMPUTER: "computers"}
"""Whose accounts are switched and unlocked, by the path of their operations."""


@dataclass(frozen=True, slots=True)
class Action:
    """Texts are in English, and translated where they are shown; `operations` are those of which one admits to it.

    `asks` names the form that it needs besides. `title` is what its task asks, `confirm` (else the label) and
    `confirm_many` what the button says for one change and for several, `did` what is told in the end, and `says` what
    each change is.
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


_JOIN_OR_UPDATE: Final = ("users.update", "groups.change-members")
ACTIONS: Final = {
    action.name: action
    for action in (
        Action(
            "enable",
            gettext_noop("Enable"),
            ("users.enable", "computers.enable"),
            title=gettext_noop("Enable {objects}?"),
            confirm_many=gettext_noop("Enable all {}"),
            did=gettext_noop("enabled"),
            says=gettext_noop("Disabled → Enabled"),
        ),
        Action(
            "disable",
            gettext_noop("Disable"),
            ("users.disable", "computers.disable"),
            title=gettext_noop("Disable {objects}?"),
            confirm_many=gettext_noop("Disable all {}"),
            did=gettext_noop("disabled"),
            says=gettext_noop("Enabled → Disabled"),
            is_dangerous=True,
        ),
        Action(
            "unlock",
            gettext_noop("Unlock"),
            ("users.unlock", "computers.unlock"),
            title=gettext_noop("Unlock {objects}?"),
            confirm_many=gettext_noop("Unlock all {}"),
            did=gettext_noop("unlocked"),
            says=gettext_noop("Locked out → Unlocked"),
        ),
        Action(
            "move",
            gettext_noop("Move"),
            ("objects.move",),
            asks="place",
            title=gettext_noop("Move {objects}?"),
            confirm_many=gettext_noop("Move all {}"),
            did=gettext_noop("moved"),
        ),
        Action(
            "join",
            gettext_noop("Add to groups"),
            ("groups.change-members",),
            asks="groups",
            title=gettext_noop("Add {objects} to {groups}?"),
            confirm=gettext_noop("Add to the group"),
            confirm_many=gettext_noop("Add to {} groups"),
            did=gettext_noop("{count} added"),
        ),
        Action(
            "set",
            gettext_noop("Set an attribute"),
            ("objects.update",),
            asks="attribute",
            title=gettext_noop("Set {attribute} of {objects}?"),
            confirm=gettext_noop("Change it"),
            confirm_many=gettext_noop("Change all {}"),
            did=gettext_noop("changed"),
        ),
        Action("joiner", gettext_noop("Joiner…"), _JOIN_OR_UPDATE),
        Action("mover", gettext_noop("Mover…"), _JOIN_OR_UPDATE),
        Action("leaver", gettext_noop("Leaver…"), ("users.disable",)),
        Action("template", gettext_noop("By a template…"), ("change-templates.list",)),
        Action("export", gettext_noop("Export as CSV"), ("objects.search",)),
    )
}
"""In the order of a day's work."""
_CLEAR: Final = gettext_noop("Clear {attribute} of {objects}?")


def actions_for(page: PageContext) -> list[Action]:
    """What the person may do with objects that they choose."""
    return [action for action in ACTIONS.values() if any(map(page.may, action.operations))]


def condition_on(ids: Iterable[str]) -> str:
    """The filter that finds the objects with these ids; raises InvalidRequest for what is none, and for too many."""
    guids = list(dict.fromkeys(guid for text in ids if (guid := parse_guid(text)) is not None))
    if not guids:
        raise InvalidRequest(_("Choose at least one object."))
    if len(guids) > MOST:
        text = _("{count} objects are chosen; at most {most} can be changed together.")
        raise InvalidRequest(text.format(count=len(guids), most=MOST))
    return str(Or(*(Equals("objectGUID", guid.bytes_le) for guid in guids)))


def find_chosen(page: PageContext, ids: Sequence[str], *further: str) -> list[Record]:
    """The chosen objects as they are now with further attributes, by name; those that are gone, or were never to be
    seen, are left out.
    """
    condition_on(ids)
    found: list[Record] = []
    for start in range(0, len(ids), _AT_ONCE):
        query = {
            "filter": condition_on(ids[start : start + _AT_ONCE]),
            "attributes": ",".join(("objectSid", "primaryGroupID", *further)),
            "pageSize": "100",
        }
        found += page.perform("objects.search", query=query)["items"]
    return sorted(found, key=lambda record: str(record["name"]).casefold())


def plan(page: PageContext, action: Action, records: Sequence[Record], given: Mapping[str, Any], *, then: str) -> Task:
    """The task of doing it; `given` is what its form asked for. Raises GatewayError naming what is wrong with that."""
    if not records:
        raise InvalidRequest(_("None of the chosen objects is there any more."))
    if action.name == "join":
        steps, left_out = list(_joining(page, records, given["groups"])), []
    else:
        steps = [step for record in records if (step := _step(action, record, given)) is not None]
        changed = {step.object_id for step in steps}
        why = _("it has no account that could be changed so")
        left_out = [(str(record["name"]), why) for record in records if str(record["id"]) not in changed]
    title = _CLEAR if action.name == "set" and not given["values"] else action.title
    return Task(
        title=_(title).format(
            objects=_objects(len(records) - len(left_out)),
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
    """The change of one object; None for one without an account, where that is what would be changed."""
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
    """The change of one object by an operation with this body; `says` is what it does, in words."""
    return Step(
        operation=operation,
        document={"id": record["id"], **document},
        name=str(record["name"]),
        place=str(record["distinguishedName"]),
        object_id=str(record["id"]),
        says=says,
    )


def _objects(count: int) -> str:
    return ngettext("{count} object", "{count} objects", count).format(count=count)


def _required(given: Mapping[str, Any], name: str) -> str:
    if not (text := str(given.get(name, "")).strip()):
        raise refused_field(name, "must not be blank")
    return text


def refused_field(name: str, detail: str) -> InvalidRequest:
    """The refusal of a field of a form; the page says what is wrong beside it."""
    return InvalidRequest(errors=[FieldError(InvalidRequest.code, detail, pointer=f"#/{name}")])


def find_named(page: PageContext, resource: str, text: str, attributes: Iterable[str]) -> Record:
    """The object that a field of a form names, by UUID or distinguished name; raises as the operations that read it."""
    query = {"attributes": ",".join(attributes)}
    if parse_guid(text) is not None:
        found: Record = page.perform(f"{resource}.read", id=text, query=query)
    else:
        found = page.perform(f"{resource}.read-by-dn", query={"dn": text, **query})
    return found


def find_user(page: PageContext, text: str, attributes: Iterable[str], *, field: str) -> Record:
    """The user whom a field of a form names; raises InvalidRequest naming the field."""
    try:
        return find_named(page, "users", text, attributes)
    except GatewayError as refusal:
        is_named = bool(text.strip())
        detail = _("{name} is no user that you can see").format(name=text) if is_named else "must not be blank"
        raise refused_field(field, detail) from refusal


def _joining(page: PageContext, records: Sequence[Record], groups: Sequence[str]) -> Iterator[Step]:
    """One change for each group: all who are chosen become its members together."""
    named = [text.strip() for text in groups if text.strip()]
    if not named:
        raise refused_field("group", "must not be blank")
    members = [str(record["id"]) for record in records]
    for text in dict.fromkeys(named):
        what = records[0]["name"] if len(records) == 1 else _objects(len(records))
        says = _("Add {name}").format(name=what)
        yield step_for("groups.change-members", _find_group(page, text), {"add": members}, says=says)


def _find_group(page: PageContext, text: str) -> Record:
    try:
        return find_named(page, "groups", text, ("objectSid",))
    except GatewayError as refusal:
        raise refused_field("group", _("{name} is no group that you can see").format(name=text)) from refusal
