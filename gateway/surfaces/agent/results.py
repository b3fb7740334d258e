"""Renders what came of a tool call: structured content, a copy of it as text, and a sentence about it.

Structured content is what `/api` answers, made lean: without nulls, long attributes and, in lists, what few agents
need; a list is cut where it grows too long. The sentences contain only our own words, never a value of the directory,
which could be an instruction to the agent. They say what was left out and what to do next. In the copy, invisible
characters are written as JSON escapes.
"""

import re
from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json

from core.shapes import Json
from core.text.invisible import escaped_in_json, replace_invisible
from directory.shapes.kinds import RESOURCES
from gateway import pipeline
from gateway.surfaces.agent.planning import ALL_ATTRIBUTES, Plan, cut_cursor
from gateway.surfaces.agent.tools import ACCOUNTS, DESCRIBE, SENTENCES, Behaviour
from gateway.surfaces.viewsets import BatchAnswer

MAX_VALUES = 50
MAX_CHARACTERS = 4000
"""An attribute with more than this is only counted, in `leftOut`, unless the agent asks for it by name."""

MAX_LIST_CHARACTERS = 16_000
"""The lists of a result are cut where they grow longer than this together: some 5,000 tokens."""

_SELDOM_NEEDED = frozenset(
    "distinguishedName parentId objectClass version createdAt changedAt sid userPrincipalName expiresAt lastSignInAt"
    " passwordLastSetAt passwordExpired mustChangePassword passwordNeverExpires".split()
)
_USUAL = {"protected": False, "enabled": True, "lockedOut": False}
"""What records of lists say only where it is otherwise."""


def success(plan: Plan, answer: pipeline.Answer, included: Mapping[str, Any], arguments: Mapping[str, Any]) -> Json:
    """The result of a successful call."""
    structured = {"done": True} if answer.body is None else _without_nulls({**answer.body, **included})
    left_out = _trim(plan, structured, arguments) or {}
    left_out |= _shorten_lists(plan, structured, arguments)
    sentence = _sentence(plan, answer, structured)
    if answer.may_be_behind:
        sentence += _NOT_REPLICATED
    if left_out:
        structured["leftOut"] = left_out
        sentence += "".join(SENTENCES["left_out"][name] for name in left_out)
    return result(sentence, structured, is_error=False)


_NOT_REPLICATED = (
    " Changes of the last moments may be missing: another domain controller has them, and they are on their way."
)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(member) for name, member in value.items() if member is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _shorten_lists(plan: Plan, body: Json, arguments: Mapping[str, Any]) -> Json:
    """Make the records of lists lean and cut lists that are too long; return how many items were cut, by list."""
    lists = {"items": body} if isinstance(body.get("items"), list) else {}
    lists |= {name: body[name] for name in plan.includes if isinstance(body[name].get("items"), list)}
    cut: dict[str, int] = {}
    for name, page in lists.items():
        items = _after(page["items"], plan.shown_until)
        is_search = name != "items" or plan.tool.few_attributes
        lean = [_lean(plan, item) if is_search and "attributes" in item else item for item in items]
        kept = _count_fitting(lean, MAX_LIST_CHARACTERS // len(lists))
        page["items"] = lean[:kept]
        if kept < len(lean):
            cut[name] = len(lean) - kept
            if (last := _name_of(items[kept - 1])) is not None:
                page["nextCursor"] = cut_cursor(last, plan.page_cursor, arguments)
    return {"items": cut} if cut else {}


def _after(items: list[Any], shown_until: str | None) -> list[Any]:
    """The items after the last one shown. If that is gone by now, all of them: some twice rather than some never."""
    places = [place for place, item in enumerate(items) if shown_until is not None and _name_of(item) == shown_until]
    return items[places[0] + 1 :] if places else items


def _name_of(item: Mapping[str, Any]) -> Any:
    """What identifies an item of a list; attributes of the schema have only a name."""
    return item.get("id") or item.get("name")


def _lean(plan: Plan, record: Json) -> Json:
    if plan.fields:
        return {name: value for name, value in record.items() if name in plan.fields}
    shown = _sparing(record)
    if "account" in shown:
        shown["account"] = _sparing(shown["account"])
        if shown["account"].get("samAccountName") == record["name"]:
            del shown["account"]["samAccountName"]
        if not shown["account"]:
            del shown["account"]
    if not plan.has_chosen_attributes:
        shown["attributes"] = {
            name: values
            for name, values in shown["attributes"].items()
            if values and not (name == "displayName" and _words_of(values[0]) == _words_of(record["name"]))
        }
    if plan.way[0] in ACCOUNTS and not plan.includes:
        shown.pop("kind", None)
    return shown


def _sparing(members: Mapping[str, Any]) -> Json:
    return {
        name: value
        for name, value in members.items()
        if name not in _SELDOM_NEEDED and (name not in _USUAL or value != _USUAL[name])
    }


def _words_of(name: str) -> list[str]:
    """What a name is made of: Lovelace, Ada is Ada Lovelace."""
    return sorted(re.findall(r"\w+", name.casefold()))


def _count_fitting(items: list[Any], characters: int) -> int:
    """How many items have room, at least one."""
    for number, item in enumerate(items):
        characters -= len(to_json(item))
        if characters < 0:
            return max(1, number)
    return len(items)


def batch_result(plan: Plan, answer: BatchAnswer) -> Json:
    """The result of a batch; an error if nothing came of it."""
    is_error = not answer["succeeded"] + answer["queued"]
    preview = {"dryRun": True} if plan.is_preview else {}
    return result(_about_batch(plan, answer), {**preview, **_without_nulls(answer)}, is_error=is_error)


def plan_result(shown: Json) -> Json:
    """The result of a plan that is only shown."""
    changes = shown["changes"]
    refused = sum("problem" in item for item in changes)
    told = "Nothing was changed."
    if refused:
        told += f" {refused} cannot be made, see problem: correct the plan first."
    elif any(item.get("wouldQueue") for item in changes):
        told += " With this digest all of it waits for a person, who decides about it together."
    else:
        told += " With this digest all of it is done at once."
    return result(told, {"dryRun": True, **_without_nulls(shown)}, is_error=False)


def made_result(items: list[Json]) -> Json:
    """The result of a plan that was applied."""
    refused = sum("problem" in item for item in items)
    held = sum("changeRequestId" in item for item in items)
    told = [f"Done: {len(items) - refused - held}."]
    if held:
        told.append(f"Wait for a person: {held}, decided together; look with my_change_requests.")
    if refused:
        told.append(f"Refused: {refused}, see problem.")
    return result(" ".join(told), {"results": _without_nulls(items)}, is_error=refused == len(items))


def result(sentence: str, structured: Json, *, is_error: bool) -> Json:
    return {
        "content": [
            {"type": "text", "text": sentence},
            {"type": "text", "text": replace_invisible(to_json(structured).decode(), escaped_in_json)},
        ],
        "structuredContent": structured,
        "isError": is_error,
        "resultType": "complete",
    }


def _sentence(plan: Plan, answer: pipeline.Answer, body: Mapping[str, Any]) -> str:
    if plan.is_preview:
        return _about_preview(body)
    if answer.status == 202 and "changeRequest" in body:
        return _HELD.format(id=body["changeRequest"]["id"])
    if {"runId", "state"} <= body.keys():
        return _about_run(body)
    if "items" in body:
        return _about_page(plan, body)
    if plan.tool.behaviour is Behaviour.READS:
        return _about_read(plan, body)
    return SENTENCES["requests"][body["status"]] if plan.tool.behaviour is Behaviour.WITHDRAWS else "Done."


def _about_read(plan: Plan, body: Mapping[str, Any]) -> str:
    if plan.way[1] == "sign-in":
        return _about_sign_in(body)
    if plan.way[1] == "count":
        return "Counted; the most frequent values are listed." if body["moreValues"] else "Counted."
    said = "Read." if plan.has_chosen_attributes else "Read, with the usual attributes; name others in attributes."
    if longer := [name for name in plan.includes if "nextCursor" in body[name]]:
        said = (
            f"Read. There is more of {', '.join(longer)}: include one of them alone, and cursor set to its nextCursor."
        )
    return f"{said} {_UNLESS_SAID}" if plan.includes.keys() & {"members", "nested-members"} else said


_UNLESS_SAID = (
    "Accounts are enabled, not locked out and not protected, and samAccountName is the name, unless it says otherwise."
)


_HELD = (
    "Not done yet: a person decides about change request {id} first, at the address in page, which you may show the"
    " person you work for. Asking again changes nothing; look with my_change_requests, or wait there with wait."
)


def _about_sign_in(body: Mapping[str, Any]) -> str:
    found: dict[bool, list[str]] = {True: [], False: []}
    for obstacle in body["obstacles"]:
        found[obstacle["everywhere"]].append(SENTENCES["obstacles"][obstacle["code"]])
    parts = [f"Cannot sign in: {', '.join(found[True])}."] if found[True] else []
    if found[False]:
        parts.append(f"In some places or ways not: {', '.join(found[False])}.")
    silent = sum("problem" in server for server in body["servers"]) + body["serversNotAsked"]
    if silent:
        parts.append(f"{silent} domain controllers did not answer or were not asked, and may know more.")
    return " ".join(parts) or "Nothing keeps this user from signing in, but a wrong password."


def _about_preview(body: Mapping[str, Any]) -> str:
    if not body["changes"]:
        return "Nothing was changed, and this call would change nothing."
    if body["wouldQueue"]:
        return "Nothing was changed. A person would have to approve this before it is done."
    return "Nothing was changed. This would be done at once."


def _about_batch(plan: Plan, body: BatchAnswer) -> str:
    if plan.is_preview:
        return "Nothing was changed. results tell what each would do, whether it would wait, and what is in the way."
    told = [f"Done: {body['succeeded']}."]
    if body["queued"]:
        told.append(f"Wait for a person: {body['queued']}; look with my_change_requests.")
    if body["failed"]:
        told.append(f"Refused: {body['failed']}, see problem.")
    return " ".join(told)


def _about_run(body: Mapping[str, Any]) -> str:
    if body["state"] != "completed":
        return "Begun, and going on: look with my_change_requests and its runId as run in a while."
    return f"Done: {body['succeeded']} changed, {body['unchanged']} as asked already, {body['failed']} failed."


def _about_page(plan: Plan, body: Mapping[str, Any]) -> str:
    parts = [f"{len(body['items'])} shown."]
    if "nextCursor" in body:
        parts.append("There are more: call again with the same arguments and cursor set to nextCursor.")
    if "searchedBackTo" in body:
        parts.append(f"Searched back to {body['searchedBackTo']} so far; what is older is searched by that next call.")
    if body["truncated"]:
        parts.append("A limit cut the result: ask for less, by filter or base.")
    if plan.tool.few_attributes and not plan.has_chosen_attributes:
        parts.append("Few attributes are shown; name others in attributes, or read_object.")
    if plan.tool.few_attributes and not plan.fields:
        if plan.way[0] in ACCOUNTS:
            parts.append(_UNLESS_SAID)
        parts.append("fields shows more of each.")
    return " ".join(parts)


def _trim(plan: Plan, body: Json, arguments: Mapping[str, Any]) -> Json | None:
    """Remove long attributes that were not asked for by name, and return how much was removed."""
    if plan.way[1] == DESCRIBE:
        return _trim_description(plan.way[0], body, arguments)
    if plan.has_chosen_attributes and ALL_ATTRIBUTES not in str(arguments.get("attributes")):
        return None
    records = body["items"] if isinstance(body.get("items"), list) else [body]
    left_out: Json = {}
    for record in records:
        if isinstance(attributes := record.get("attributes"), dict):
            too_long = {name: len(values) for name, values in attributes.items() if _is_too_long(values)}
            if too_long:
                record["attributes"] = {name: attributes[name] for name in attributes if name not in too_long}
                left_out[record["id"]] = too_long
    return {"values": left_out} if left_out else None


def _is_too_long(values: list[str]) -> bool:
    return len(values) > MAX_VALUES or sum(map(len, values)) > MAX_CHARACTERS


def _trim_description(kind: str, body: Json, arguments: Mapping[str, Any]) -> Json | None:
    """Keep only the usual attributes of a kind unless some are named; return how many were removed."""
    if "attribute" in arguments:
        return None
    usual = RESOURCES[kind].attributes
    items = [item for item in body["items"] if item["name"] in usual]
    number = len(body["items"]) - len(items)
    body["items"] = items
    return {"attributes": number} if number else None
