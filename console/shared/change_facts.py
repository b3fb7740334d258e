"""Changes in words, from what operations answer: change requests, records of the log, dry runs."""

from collections.abc import Mapping, Sequence
from typing import Any

from directory.shapes.wording.change_words import ChangeFacts, change_facts


def facts_of_request(item: Mapping[str, Any]) -> ChangeFacts:
    """A change request as the inbox lists it, or as a review holds it."""
    change = item["changeRequest"]
    unlisted = item["unlisted"]
    return change_facts(
        change["operation"],
        [{**each, "kept": unlisted.get(each["attribute"])} for each in change["changes"]],
        distinguished_name=change["target"]["distinguishedName"],
        target_id=change["target"]["id"],
        account_name=item["targetAccount"],
        kind=item["targetKind"],
        references=change["references"],
        own=item["directory"] is None,
    )


def facts_of_record(record: Mapping[str, Any]) -> ChangeFacts:
    """A record of the log; of a change request, which is much like one, what it shows to everybody."""
    target = record["target"] or {}
    return change_facts(
        record["operation"],
        record["changes"],
        distinguished_name=target.get("distinguishedName"),
        target_id=target.get("id"),
        kind=target.get("kind") or "",
        references=record.get("references", ()),
        own=record.get("directory", "") is None,
    )


def facts_of_preview(
    operation: str, changes: Sequence[Mapping[str, Any]], about: Mapping[str, Any] | None
) -> ChangeFacts:
    """What a dry run would change; `about` is the record of the object, None for one to be created."""
    if about is None:
        of_creation = next((item["after"] for item in changes if item["attribute"] == "distinguishedName"), ())
        return change_facts(operation, changes, distinguished_name=next(iter(of_creation), ""))
    members = (about.get("group") or {}).get("memberCount")
    return change_facts(
        operation,
        [_with_kept(change, members) for change in changes],
        distinguished_name=about["distinguishedName"],
        target_id=about["id"],
        account_name=(about.get("account") or {}).get("samAccountName"),
        kind=about["kind"],
    )


def _with_kept(change: Mapping[str, Any], members: int | None) -> Mapping[str, Any]:
    """A change of a group's members, of which a dry run lists only those that come or go."""
    if members is None or change["attribute"].lower() != "member":
        return change
    return {**change, "kept": max(0, members - len(change["before"]))}
