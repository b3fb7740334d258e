"""What can be done with several objects at once, and the changes it is for each of them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext

from active_directory import Equals, Or
from console.directory.labels import label_of
from console.directory.selection.tasks import Step, Task
from console.page_context import PageContext
from console.shared.names import common_name
from core.errors import FieldError, GatewayError, InvalidRequest
from core.shapes import parse_guid
from directory.shapes.kinds import Kind

Record = Mapping[str, Any]

MOST: Final = 200
"""Objects of one selection. More at once are a run's, or an integration's."""
_AT_ONCE: Final = 50
_RESOURCES: Final = {Kind.USER: "users", Kind.COMPUTER: "computers"}
"""Whose accounts are switched and unlocked, by the path of their operations."""


@dataclass(frozen=True, slots=True)
class Action:
    """`label` is in English, and translated where it is shown; `operations` are those of which one admits to it; `asks`
    names the form that it needs besides.
    """

    name: str
    label: str
    operations: tuple[str, ...]
    asks: str = ""
    is_dangerous: bool = False


ACTIONS: Final = {
    action.name: action
    for action in (
        Action("enable", gettext_noop("Enable"), ("users.enable", "computers.enable")),
        Action("disable", gettext_noop("Disable"), ("users.disable", "computers.disable"), is_dangerous=True),
        Action("unlock", gettext_noop("Unlock"), ("users.unlock", "computers.unlock")),
        Action("move", gettext_noop("Move"), ("objects.move",), asks="place"),
        Action("join", gettext_noop("Add to groups"), ("groups.change-members",), asks="groups"),
        Action("set", gettext_noop("Set an attribute"), ("objects.update",), asks="attribute"),
        Action("joiner", gettext_noop("Joiner…"), ("users.update", "groups.change-members")),
        Action("mover", gettext_noop("Mover…"), ("users.update", "groups.change-members")),
        Action("leaver", gettext_noop("Leaver…"), ("users.disable",)),
        Action("template", gettext_noop("By a template…"), ("change-templates.list",)),
        Action("export", gettext_noop("Export as CSV"), ("objects.search",)),
    )
}
"""In the order of a day's work."""
_DID: Final = {
    "enable": gettext_noop("enabled"),
    "disable": gettext_noop("disabled"),
    "unlock": gettext_noop("unlocked"),
    "move": gettext_noop("moved"),
    "set": gettext_noop("changed"),
}


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
    steps, left_out = [], []
    if action.name == "join":
        steps = list(_joining(page, records, given["groups"]))
    for record in records if action.name != "join" else ():
        document = _document_of(action, given)
        operation = _operation_of(action, record)
        if operation is None:
            left_out.append((str(record["name"]), _("it has no account that could be changed so")))
        else:
            steps.append(step_for(operation, record, document, says=_says(action, given)))
    one, many = _CONFIRMS.get(action.name, (action.label, ""))
    return Task(
        title=_title(action, len(steps), given, len(records)),
        confirm=_(one),
        confirm_many=_(many),
        did=_("{count} added").format(count=len(records)) if action.name == "join" else _(_DID[action.name]),
        steps=steps,
        left_out=left_out,
        is_dangerous=action.is_dangerous,
        then=then,
    )


_CONFIRMS: Final = {
    "join": (gettext_noop("Add to the group"), gettext_noop("Add to {} groups")),
    "set": (gettext_noop("Change it"), gettext_noop("Change all {}")),
    "enable": (gettext_noop("Enable"), gettext_noop("Enable all {}")),
    "disable": (gettext_noop("Disable"), gettext_noop("Disable all {}")),
    "unlock": (gettext_noop("Unlock"), gettext_noop("Unlock all {}")),
    "move": (gettext_noop("Move"), gettext_noop("Move all {}")),
}
"""What the button says for one change and for many."""


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


_SAYS: Final = {
    "enable": gettext_noop("Disabled → Enabled"),
    "disable": gettext_noop("Enabled → Disabled"),
    "unlock": gettext_noop("Locked out → Unlocked"),
}


def _says(action: Action, given: Mapping[str, Any]) -> str:
    match action.name:
        case "move":
            return f"→ {common_name(given['parent'])}"
        case "set":
            values = ", ".join(given["values"]) or _("no value")
            return f"{label_of(given['attribute'])} → {values}"
        case _:
            return _(_SAYS.get(action.name, ""))


def _title(action: Action, count: int, given: Mapping[str, Any], chosen: int) -> str:
    """The question, for so many changes of so many chosen objects."""
    attribute = given.get("attribute", "")
    match action.name:
        case "join":
            return _("Add {objects} to {groups}?").format(objects=_objects(chosen), groups=_groups(count))
        case "move":
            text = _("Move {objects}?")
        case "set" if given["values"]:
            text = _("Set {attribute} of {objects}?")
        case "set":
            text = _("Clear {attribute} of {objects}?")
        case "enable":
            text = _("Enable {objects}?")
        case "disable":
            text = _("Disable {objects}?")
        case _:
            text = _("Unlock {objects}?")
    return text.format(objects=_objects(count), attribute=attribute)


def _objects(count: int) -> str:
    return ngettext("{count} object", "{count} objects", count).format(count=count)


def _groups(count: int) -> str:
    return ngettext("{count} group", "{count} groups", count).format(count=count)


def _operation_of(action: Action, record: Record) -> str | None:
    if action.name in ("move", "set"):
        return "objects.move" if action.name == "move" else "objects.update"
    resource = _RESOURCES.get(record["kind"])
    return None if resource is None else f"{resource}.{action.name}"


def _document_of(action: Action, given: Mapping[str, Any]) -> dict[str, Any]:
    if action.name == "move":
        return {"parent": _required(given, "parent")}
    if action.name == "set":
        name, values = _required(given, "attribute"), given["values"]
        return {"replace": {name: values}} if values else {"clear": [name]}
    return {}


def _required(given: Mapping[str, Any], name: str) -> str:
    text = str(given.get(name, "")).strip()
    if not text:
        raise InvalidRequest(errors=[FieldError(InvalidRequest.code, "is needed", pointer=f"#/{name}")])
    return text


def _joining(page: PageContext, records: Sequence[Record], groups: Sequence[str]) -> Iterator[Step]:
    """One change for each group: all who are chosen become its members together."""
    named = [text.strip() for text in groups if text.strip()]
    if not named:
        raise InvalidRequest(errors=[FieldError(InvalidRequest.code, "is needed", pointer="#/group")])
    members = [str(record["id"]) for record in records]
    for text in dict.fromkeys(named):
        what = records[0]["name"] if len(records) == 1 else _objects(len(records))
        says = _("Add {name}").format(name=what)
        yield step_for("groups.change-members", _find_group(page, text), {"add": members}, says=says)


def _find_group(page: PageContext, text: str) -> Record:
    query = {"attributes": "objectSid"}
    try:
        if parse_guid(text) is not None:
            found: Record = page.perform("groups.read", id=text, query=query)
        else:
            found = page.perform("groups.read-by-dn", query={"dn": text, **query})
    except GatewayError as refusal:
        detail = _("{name} is no group that you can see").format(name=text)
        raise InvalidRequest(errors=[FieldError(InvalidRequest.code, detail, pointer="#/group")]) from refusal
    return found
