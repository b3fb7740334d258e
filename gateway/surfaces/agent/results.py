"""What a tool answers: structured content as `/api` has it, a sentence about it, and the copy as text.

The sentences are ours, every word of them: what the directory holds stands in the structured content and its copy
alone. Each says what was left out, and what to do next. In the copy, characters that nobody sees are JSON's escapes.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from pydantic_core import to_json

from core.text.unseen import escaped_in_json, with_unseen_replaced
from directory.shapes.kinds import RESOURCES
from gateway import pipeline
from gateway.surfaces.agent.planning import EVERYTHING, Plan
from gateway.surfaces.agent.tools import DESCRIBE, Behaviour

MOST_VALUES: Final = 50
MOST_CHARACTERS: Final = 4000
"""An attribute with more than so much is told of and shown only to who asks for it by name."""


def done(plan: Plan, answer: pipeline.Answer, included: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The result of a call that was not refused."""
    structured = {"done": True} if answer.body is None else {**answer.body, **included}
    left_out = _cut(plan, structured, given)
    sentence = _sentence(plan, answer, structured)
    if answer.may_be_behind:
        sentence += _BEHIND
    if left_out is not None:
        structured["leftOut"] = left_out
        sentence += _LEFT_OUT["attributes" if "attributes" in left_out else "values"]
    return _result(sentence, structured, is_error=False)


_BEHIND: Final = (
    " Changes of the last moments may be missing: another domain controller has them, and they are on their way."
)
_LEFT_OUT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "attributes": " Those are the usual ones of this kind; name others in attribute, or `*` for all.",
        "values": " Too long to show: what leftOut counts; ask for it by name in attributes.",
    }
)


def refused(problem: dict[str, Any]) -> dict[str, Any]:
    """The result of a call that was refused, with its problem details."""
    code, status = problem["code"], problem["status"]
    return _result(f"Refused ({code}). {_NEXT.get(code) or _next_by_status(status)}", problem, is_error=True)


def _result(sentence: str, structured: dict[str, Any], *, is_error: bool) -> dict[str, Any]:
    return {
        "content": [
            {"type": "text", "text": sentence},
            {"type": "text", "text": with_unseen_replaced(to_json(structured).decode(), escaped_in_json)},
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
    if plan.tool.behaviour is Behaviour.WITHDRAWS:
        return _ABOUT_REQUEST[body["status"]]
    return _done(plan)


def _done(plan: Plan) -> str:
    if plan.tool.behaviour is not Behaviour.READS:
        return "Done."
    return "Read." if plan.chosen else "Read, with the usual attributes; name others in attributes."


_HELD: Final = (
    "Not done yet: a person decides about change request {id} first. Asking again changes nothing; look with"
    " my_change_requests."
)


def _about_preview(body: Mapping[str, Any]) -> str:
    if not body["changes"]:
        return "Nothing was changed, and this call would change nothing."
    if body["wouldQueue"]:
        return "Nothing was changed. A person would have to approve this before it is done."
    return "Nothing was changed. This would be done at once."


def _about_run(body: Mapping[str, Any]) -> str:
    if body["state"] != "completed":
        return "Begun, and going on: look at the accounts with search_directory and state in a while."
    return f"Done: {body['succeeded']} changed, {body['unchanged']} as asked already, {body['failed']} failed."


def _about_page(plan: Plan, body: Mapping[str, Any]) -> str:
    parts = [f"{len(body['items'])} shown."]
    if body["nextCursor"] is not None:
        parts.append("There are more: call again with the same arguments and cursor set to nextCursor.")
    if body["truncated"]:
        parts.append("A limit cut the result: ask for less, by filter or base.")
    if plan.tool.few_attributes and not plan.chosen:
        parts.append("Few attributes are shown; name others in attributes, or read_object.")
    return " ".join(parts)


_ABOUT_REQUEST: Final[Mapping[str, str]] = MappingProxyType(
    {
        "pending": "It waits for a person.",
        "approved": "It was approved and is about to be done.",
        "applying": "It was approved and is being done.",
        "applied": "It was approved and is done.",
        "partly-failed": "It was approved, and a part of it failed: see problem and the run that it names.",
        "failed": "It was approved, but could not be done: see problem.",
        "unknown": "It was approved; whether it was done is being found out. Do not ask for it again yet.",
        "stale": "It was not done, for the object has changed since: look at it, and ask anew if it is still wanted.",
        "rejected": "A person has refused it: see comment, and do not ask for it again.",
        "expired": "Nobody decided in time. Tell the person you work for before you ask again.",
        "cancelled": "It was withdrawn.",
    }
)


def _cut(plan: Plan, body: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any] | None:
    """Take out what is too much to be read unasked, and say how much it was."""
    if plan.way[1] == DESCRIBE:
        return _cut_description(plan.way[0], body, given)
    if plan.chosen and EVERYTHING not in str(given.get("attributes")):
        return None
    records = body["items"] if isinstance(body.get("items"), list) else [body]
    left_out: dict[str, Any] = {}
    for record in records:
        if isinstance(attributes := record.get("attributes"), dict):
            too_long = {name: len(values) for name, values in attributes.items() if _is_too_long(values)}
            if too_long:
                record["attributes"] = {name: attributes[name] for name in attributes if name not in too_long}
                left_out[record["id"]] = too_long
    return {"values": left_out} if left_out else None


def _is_too_long(values: list[str]) -> bool:
    return len(values) > MOST_VALUES or sum(map(len, values)) > MOST_CHARACTERS


def _cut_description(kind: str, body: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any] | None:
    """Of the attributes that a kind may have, show the usual ones unless others are named."""
    if "attribute" in given:
        return None
    usual = RESOURCES[kind].attributes
    items = [item for item in body["items"] if item["name"] in usual]
    number = len(body["items"]) - len(items)
    body["items"] = items
    return {"attributes": number} if number else None


_NEXT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Auth.Forbidden": "You may not do this, and asking again does not help: tell the person you work for.",
        "Request.Invalid": "Correct what errors names and call again.",
        "Request.UnknownMember": "Leave out what errors names and call again.",
        "Request.UnknownParameter": "Leave out what errors names and call again.",
        "Request.NotFound": "There is nothing of this id that you may see.",
        "RateLimit.Exceeded": "Nothing was done: detail says when to go on.",
        "Search.CursorInvalid": "Search anew without cursor; with one, keep all other arguments as they were.",
        "AD.Object.NotFound": "Find it with search_directory: it may be gone, or of another kind.",
        "AD.Object.AlreadyExists": "Look at what is there with search_directory; choose another name, or change that.",
        "AD.Object.VersionMismatch": "It has changed meanwhile: read_object again, then decide anew.",
        "AD.Object.NotEmpty": "It holds other objects: look at them first. recursive deletes them too.",
        "AD.Object.DeletionProtected": "Somebody has protected it from deletion: tell the person you work for.",
        "AD.Attributes.Unknown": "Find the right name with describe_schema.",
        "AD.Attributes.NotWritable": "This attribute cannot be written; describe_schema says which can.",
        "AD.Attributes.NotReadable": "This attribute is never shown: leave it out.",
        "AD.Filter.Malformed": "Correct the filter at position and search again.",
        "AD.Filter.TooCostly": "Ask for less: by base, kind, or fewer conditions.",
        "AD.Password.PolicyViolation": "Choose another password, or let generate make one.",
        "AD.Directory.OutcomeUnknown": "Nobody knows yet whether it was done: read_object before anything else.",
    }
)


def _next_by_status(status: int) -> str:
    if status == 409:
        return "What is there does not allow it: look with read_object first."
    if status in (429, 503):
        return "Nothing was done. Wait a while, then try once more."
    if status >= 500:
        return "Do not try again at once: tell the person you work for."
    return "See detail, correct the call and try again."
