"""An object at any time that the log knows: how it was, what differs between two times, and putting it back."""

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import HttpResponseBase
from django.utils.translation import gettext as _

from audit.redact import SECRET
from console.directory.objects.changes import Change, preview_or_make
from console.directory.objects.form import Record
from console.directory.objects.page import operation_for, render_object
from console.page_context import PageContext, page_at
from core.errors import NotFound
from directory.changes.revert import can_be_put_back
from directory.shapes.kinds import permission_for
from directory.shapes.proposal import AttributeChange

LogRecord = Mapping[str, Any]
_RECORDS_READ = "1000"
_NAME = "distinguishedName"


@dataclass(frozen=True, slots=True)
class Moment:
    """The object right after a recorded change; without a `record` before the first one that is known, or now.

    `values` are those of the attributes that the gateway has changed, None while there was no object.
    """

    record: LogRecord | None
    values: dict[str, list[str]] | None


@dataclass(frozen=True, slots=True)
class ChangedElsewhere:
    """An attribute that changed outside the gateway after a record of its values and before the next one, or now."""

    attribute: str
    after: LogRecord
    before: LogRecord | None


def replay(
    now: Record, records: Sequence[LogRecord], lists: Collection[str]
) -> tuple[list[Moment], list[ChangedElsewhere]]:
    """The object before its first recorded change, after each, and now; and what the log does not explain.

    `records` are the oldest first. Of `lists` the log holds only the values that were added and removed. What changed
    outside the gateway shows from the next record of the attribute on: when it changed, nobody knows.
    """
    names = {change["attribute"].lower(): change["attribute"] for each in records for change in each["changes"]}
    present = {name.lower(): found for name, found in now["attributes"].items()}
    present[_NAME.lower()] = [now["distinguishedName"]]
    current = {name: present.get(low, []) for low, name in names.items()}
    values = {name: current[name] if low in lists else None for low, name in names.items()}
    for record in reversed(records):
        for change in record["changes"]:
            name, before = names[change["attribute"].lower()], change["before"]
            kept = values[name] if name.lower() in lists and not _is(record, "delete") else None
            values[name] = [*(value for value in kept or () if value not in {*change["after"], *before}), *before]
    state = {name: found or [] for name, found in values.items()}
    is_there = not (records and _is(records[0], "create"))
    moments = [Moment(None, state if is_there else None)]
    elsewhere: list[ChangedElsewhere] = []
    last: dict[str, LogRecord] = {}
    for record in records:
        state = dict(state)
        is_there = not _is(record, "delete")
        for change in record["changes"] if is_there else ():
            name, before, after = names[change["attribute"].lower()], change["before"], change["after"]
            is_list, known = name.lower() in lists, state[name]
            is_as_left = _folded(before) <= _folded(known) if is_list else _folded(before) == _folded(known)
            if name in last and not is_as_left and SECRET not in before:
                elsewhere.append(ChangedElsewhere(name, last[name], record))
            state[name] = [*(value for value in known if value not in {*after, *before}), *after] if is_list else after
            last[name] = record
        moments.append(Moment(record, state if is_there else None))
    changed = [name for name in last if _folded(state[name]) != _folded(current[name]) and SECRET not in state[name]]
    elsewhere += [ChangedElsewhere(name, last[name], None) for name in changed]
    return [*moments, Moment(None, current)], elsewhere


def _is(record: LogRecord, action: str) -> bool:
    return bool(record["operation"].endswith(f".{action}"))


def _folded(values: Collection[str]) -> set[str]:
    return {value.casefold() for value in values}


def _difference(one: Moment, other: Moment) -> list[dict[str, Any]]:
    """What differs between two moments, as changes of attributes."""
    before, after = one.values or {}, other.values or {}
    return [
        {"attribute": name, "before": before.get(name, []), "after": after.get(name, [])}
        for name in sorted({*before, *after}, key=str.lower)
        if _folded(before.get(name, [])) != _folded(after.get(name, []))
    ]


def _read(page: PageContext, object_id: UUID) -> dict[str, Any]:
    """The object, its moments, the schema of its attributes, and whether the log has older changes than were read."""
    record = page.perform("objects.read", id=object_id, query={"attributes": "*"})
    query = {"target": str(object_id), "onlyChanges": "true", "outcome": "succeeded", "pageSize": _RECORDS_READ}
    found = page.perform("operations.search", query=query)
    schema = {each["name"].lower(): each for each in page.perform("schema.list-attributes")["items"]}
    lists = {name for name, each in schema.items() if each["type"] == "dn" and not each["singleValued"]}
    changes = [each for each in reversed(found["items"]) if each["changes"]]
    moments, elsewhere = replay(record, changes, lists)
    is_cut = found["nextCursor"] is not None
    return {"record": record, "moments": moments, "elsewhere": elsewhere, "schema": schema, "is_cut": is_cut}


def _position(page: PageContext, name: str, moments: Sequence[Moment]) -> int:
    """The moment that a field names by its number, or by a time; the last one if it is empty."""
    text = page.submitted.get(name, "").strip()
    if "T" in text:
        return bisect_right([moment.record["at"] for moment in moments if moment.record], f"{text[:16]}:59.999999Z")
    if not text:
        return len(moments) - 1
    if not text.isdecimal() or int(text) >= len(moments):
        raise NotFound
    return int(text)


@page_at("directory/objects/<uuid:object_id>/timeline", "object-timeline", get="operations.search")
def timeline(page: PageContext, object_id: UUID) -> HttpResponseBase:
    """The object at one time beside another one, by default now."""
    known = _read(page, object_id)
    moments, record = known["moments"], known.pop("record")
    at, other = _position(page, "time" if page.query["time"] else "at", moments), _position(page, "with", moments)
    differing = _difference(moments[at], moments[other])
    names = {each["attribute"] for each in differing}
    return render_object(
        page,
        record,
        "timeline",
        **known,
        at=at,
        other=other,
        moment=moments[at],
        last=len(moments) - 1,
        changes=len(moments) - 2,
        differing=differing,
        same=[(name, values) for name, values in (moments[at].values or {}).items() if name not in names and values],
        may_put_back=page.call.may(permission_for("update", record["kind"])),
    )


@page_at("directory/objects/<uuid:object_id>/timeline/put-back", "object-put-back", "POST", post="objects.update")
def put_back(page: PageContext, object_id: UUID) -> HttpResponseBase:
    """Give the object the values that it had at a time, as far as they can be written."""
    known = _read(page, object_id)
    record, moments = known["record"], known["moments"]
    body: dict[str, Any] = {"replace": {}, "clear": [], "add": {}, "remove": {}}
    for each in _difference(moments[-1], moments[_position(page, "at", moments)]):
        name, now, then = each["attribute"], each["before"], each["after"]
        attribute = known["schema"].get(name.lower(), {"writable": False})
        if not attribute["writable"] or not can_be_put_back(AttributeChange(name, tuple(then), tuple(now))):
            continue
        if attribute["type"] == "dn" and not attribute["singleValued"]:
            body["add"][name] = [value for value in then if value not in now]
            body["remove"][name] = [value for value in now if value not in then]
        elif then:
            body["replace"][name] = then
        else:
            body["clear"].append(name)
    for part in ("add", "remove"):
        body[part] = {name: values for name, values in body[part].items() if values}
    change = Change(
        operation=operation_for(record, "update"),
        about=record,
        body=body,
        title=_("Put {name} back?").format(name=record["name"]),
        confirm=_("Put back"),
        message=_("{name} is put back.").format(name=record["name"]),
    )
    return preview_or_make(page, change)
