"""What can be done with several objects at once, and the changes it is for each of them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from directory.ldap import Equals, Or
from directory.shapes.kinds import Kind
from gateway.console.directory.labels import label_of
from gateway.console.directory.selection.tasks import Step, Task
from gateway.console.page_context import PageContext
from gateway.console.shared.names import common_name
from gateway.core.errors import FieldError, GatewayError, InvalidRequest
from gateway.core.shapes import parse_guid

Record = Mapping[str, Any]

MOST: Final = 200
"""Objects of one selection. More at once are a run's, or an integration's."""
_AT_ONCE: Final = 50
_RESOURCES: Final = {Kind.USER: "users", Kind.COMPUTER: "computers"}
"""Whose accounts are switched and unlocked, by the path of their operations."""


@dataclass(frozen=True, slots=True)
class Action:
    """`operations` are those of which one admits to it; `asks` names the form that it needs besides."""

    name: str
    label: str
    operations: tuple[str, ...]
    asks: str = ""
    is_dangerous: bool = False


ACTIONS: Final = {
    action.name: action
    for action in (
        Action("enable", "Enable", ("users.enable", "computers.enable")),
        Action("disable", "Disable", ("users.disable", "computers.disable"), is_dangerous=True),
        Action("unlock", "Unlock", ("users.unlock", "computers.unlock")),
        Action("move", "Move", ("objects.move",), asks="place"),
        Action("join", "Add to groups", ("groups.change-members",), asks="groups"),
        Action("set", "Set an attribute", ("objects.update",), asks="attribute"),
        Action("joiner", "Joiner…", ("users.update", "groups.change-members")),
        Action("mover", "Mover…", ("users.update", "groups.change-members")),
        Action("leaver", "Leaver…", ("users.disable",)),
        Action("template", "By a template…", ("change-templates.list",)),
        Action("export", "Export as CSV", ("objects.search",)),
    )
}
"""In the order of a day's work."""
_DID: Final = {"enable": "enabled", "disable": "disabled", "unlock": "unlocked", "move": "moved", "set": "changed"}


def actions_for(page: PageContext) -> list[Action]:
    """What the person may do with objects that they choose."""
    return [action for action in ACTIONS.values() if any(map(page.may, action.operations))]


def condition_on(ids: Iterable[str]) -> str:
    """The filter that finds the objects with these ids; raises InvalidRequest for what is none, and for too many."""
    guids = list(dict.fromkeys(guid for text in ids if (guid := parse_guid(text)) is not None))
    if not guids:
        raise InvalidRequest("Choose at least one object.")
    if len(guids) > MOST:
        raise InvalidRequest(f"{len(guids)} objects are chosen; at most {MOST} can be changed together.")
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
        raise InvalidRequest("None of the chosen objects is there any more.")
    steps, left_out = [], []
    if action.name == "join":
        steps = list(_joining(page, records, given["groups"]))
    for record in records if action.name != "join" else ():
        document = _document_of(action, given)
        operation = _operation_of(action, record)
        if operation is None:
            left_out.append((str(record["name"]), "it has no account that could be changed so"))
        else:
            steps.append(step_for(operation, record, document, says=_says(action, given)))
    count = _counted(len(steps), "group" if action.name == "join" else "object")
    return Task(
        title=_title(action, count, given, len(records)),
        confirm=_CONFIRMS.get(action.name, (action.label, ""))[0],
        confirm_many=_CONFIRMS.get(action.name, (action.label, ""))[1],
        did=f"{len(records)} added" if action.name == "join" else _DID[action.name],
        steps=steps,
        left_out=left_out,
        is_dangerous=action.is_dangerous,
        then=then,
    )


_CONFIRMS: Final = {"join": ("Add to the group", "Add to {} groups"), "set": ("Change it", "Change all {}")}
"""What the button says for one change and for many, where it is not the action's label."""


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
    "enable": "Disabled → Enabled",
    "disable": "Enabled → Disabled",
    "unlock": "Locked out → Unlocked",
}


def _says(action: Action, given: Mapping[str, Any]) -> str:
    match action.name:
        case "move":
            return f"→ {common_name(given['parent'])}"
        case "set":
            values = ", ".join(given["values"])
            return f"{label_of(given['attribute'])} → {values or 'no value'}"
        case _:
            return _SAYS.get(action.name, "")


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _title(action: Action, count: str, given: Mapping[str, Any], chosen: int) -> str:
    match action.name:
        case "join":
            return f"Add {_counted(chosen, 'object')} to {count}?"
        case "move":
            return f"Move {count}?"
        case "set":
            return f"{'Set' if given['values'] else 'Clear'} {given['attribute']} of {count}?"
        case _:
            return f"{action.label} {count}?"


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
        says = f"Add {records[0]['name']}" if len(records) == 1 else f"Add {len(records)} objects"
        yield step_for("groups.change-members", _find_group(page, text), {"add": members}, says=says)


def _find_group(page: PageContext, text: str) -> Record:
    query = {"attributes": "objectSid"}
    try:
        if parse_guid(text) is not None:
            found: Record = page.perform("groups.read", id=text, query=query)
        else:
            found = page.perform("groups.read-by-dn", query={"dn": text, **query})
    except GatewayError as refusal:
        detail = f"{text} is no group that you can see"
        raise InvalidRequest(errors=[FieldError(InvalidRequest.code, detail, pointer="#/group")]) from refusal
    return found
