"""Carries out one command: resolves names, sends the request, follows pages, waits for people, and shows the answer."""

import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote
from uuid import uuid4

from dirgate import output
from dirgate.arguments import Given, read_items
from dirgate.connection import Answer, Gateway, header_text
from dirgate.document import Command
from dirgate.failures import Exit, Failure
from dirgate.naming import find_id, is_id

_PAGE: Final = 1000
_WAIT: Final = 30
_MADE: Final = ("applied", "scheduled")
_UNDECIDED: Final = frozenset({"pending", "approved", "applying", "unknown"})
_AT_ONCE: Final = 1000
"""The most items that the gateway takes in one batch."""


def run(command: Command, given: Given, gateway: Gateway) -> Exit:
    """Do it; return the exit status. Raises Failure."""
    _resolve(command, given, gateway)
    if command.name == "change-requests wait":
        return _show_decided(_decided(gateway, given.path["id"]), as_json=given.options.json)
    if command.is_paged:
        return _search(command, given, gateway)
    if not command.is_change:
        return _show(command, given, gateway.send("GET", _path(command, given), query=given.query), gateway)
    headers = given.headers
    if "X-Change-Reason" in headers:
        headers["X-Change-Reason"] = header_text(headers["X-Change-Reason"])
    if (version := headers.get("If-Match")) and '"' not in version and version != "*":
        headers["If-Match"] = f'"{version}"'
    key = headers.setdefault("Idempotency-Key", str(uuid4()))
    try:
        if command.item is not None:
            return _batch(command, given, gateway, key)
        body = given.body if command.has_body else None
        answer = gateway.send(command.method, _path(command, given), query=given.query, headers=headers, body=body)
    except KeyboardInterrupt:
        raise Failure(f"Interrupted: the change may have been made. {_again(key)}", Exit.INTERRUPTED) from None
    except Failure as failure:
        if failure.status == Exit.UNREACHABLE and not given.query.get("dryRun"):
            raise Failure(f"{failure} {_again(key)}", failure.status) from None
        raise
    return _show(command, given, answer, gateway)


def _again(key: str) -> str:
    return f"The same command with --idempotency-key {key} tells, and changes nothing twice."


def _path(command: Command, given: Given) -> str:
    path = command.path
    for name, value in given.path.items():
        path = path.replace(f"{{{name}}}", quote(value, safe=""))
    return path


def _resolve(command: Command, given: Given, gateway: Gateway) -> None:
    """Put ids where objects were named."""
    if command.names_object:
        given.path["id"] = find_id(gateway, command.resource, given.path["id"])
    for option in command.options:
        if option.names_objects and option.place == "body" and option.name in given.body:
            given.body[option.name] = [find_id(gateway, "objects", each) for each in given.body[option.name]]


def _search(command: Command, given: Given, gateway: Gateway) -> Exit:
    """Show the records that were found, page after page."""
    options, path = given.options, _path(command, given)
    if getattr(options, "csv", False):
        for part in gateway.stream(path, given.query, "text/csv"):
            sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
        return Exit.DONE
    found: list[Any] = []
    cursor: str | None = None
    limit = sys.maxsize if options.all else options.limit
    while True:
        query = given.query | {"pageSize": min(_PAGE, limit - len(found))} | ({"cursor": cursor} if cursor else {})
        page = gateway.get(path, **query)
        found += page["items"]
        cursor = page["nextCursor"]
        if cursor is None or len(found) >= limit:
            break
        if options.all and not options.json:
            output.show_progress(len(found), page.get("total") or len(found) + 1, "found")
    if options.json:
        output.show_json({**page, "items": found})
        return Exit.DONE
    if not found:
        output.say("Nothing was found.")
        return Exit.DONE
    asked = given.query.get("attributes", "")
    chosen = options.columns.split(",") if options.columns else None
    attributes = asked.split(",") if asked else []
    output.show_table(chosen or output.columns_of(command.resource, found, attributes), found)
    if cursor is not None:
        total = f" of {page['total']}" if page.get("total") else ", and there are more"
        output.say(f"These are {len(found)}{total}: --all shows all, --limit so many.")
    return Exit.DONE


def _show(command: Command, given: Given, answer: Answer, gateway: Gateway) -> Exit:
    """Show what a request answered; wait for a decision first if that was asked for."""
    document, options = answer.document, given.options
    if answer.status == 202 and isinstance(document, dict) and "changeRequest" in document:
        waiting = document["changeRequest"]
        if waiting["status"] == "scheduled":
            return _show_decided(gateway.get(f"/api/change-requests/{waiting['id']}"), as_json=options.json)
        if options.wait:
            output.say(f"Waiting for a decision on change request {waiting['id']} ...")
            return _show_decided(_decided(gateway, waiting["id"]), as_json=options.json)
        if options.json:
            output.show_json(document)
        else:
            print(f"Waits for approval: change request {waiting['id']}, until {waiting['expiresAt']}.", flush=True)
        return Exit.WAITS
    if isinstance(document, dict) and "runId" in document and "results" in document:
        return _show_run(_completed(gateway, document) if getattr(options, "wait", False) else document, options.json)
    if answer.end is not None:
        due = gateway.get(f"/api/change-requests/{answer.end}")["dueAt"]
        output.say(f"It ends by itself at {due}: change request {answer.end}.")
        document = {**(document or {}), "scheduledEnd": answer.end}
    _show_document(command, document, as_json=options.json)
    return Exit.DONE


def _show_document(command: Command, document: Any, *, as_json: bool) -> None:
    if as_json:
        output.show_json(document)
    elif document is None:
        output.say("Done.")
    elif not isinstance(document, dict):
        print(document)
    elif "dryRun" in document:
        _show_dry_run(document)
    elif command.is_change:
        output.say("Done.")
        output.show_record({name: value for name, value in document.items() if value not in (None, [], {})})
    elif isinstance(document.get("items"), list):
        output.show_table(output.columns_of(command.resource, document["items"]), document["items"])
    else:
        output.show_record(document)


def _show_dry_run(document: Mapping[str, Any]) -> None:
    output.show_changes(document.get("changes", ()))
    for warning in document.get("warnings", ()):
        output.say(f"Warning: {warning}")
    waits = "would wait for approval" if document.get("wouldQueue") else "would be made at once"
    output.say(f"Nothing was changed. The change {waits}; its risk is {document.get('risk')}.")


def _decided(gateway: Gateway, change_request: str) -> dict[str, Any]:
    """Wait until a change request is decided and done. Each question waits for up to half a minute."""
    while True:
        found: dict[str, Any] = gateway.get(f"/api/change-requests/{change_request}", wait=_WAIT)
        if found["status"] not in _UNDECIDED:
            return found


def _show_decided(found: Mapping[str, Any], *, as_json: bool) -> Exit:
    if as_json:
        output.show_json(found)
    else:
        by = f" by {found['decidedBy']}" if found.get("decidedBy") else ""
        comment = f": {found['comment']}" if found.get("comment") else ""
        due = f", for {found['dueAt']}" if found["status"] == "scheduled" else ""
        print(f"Change request {found['id']} is {found['status']}{due}{by}{comment}", flush=True)
        if problem := found.get("problem"):
            output.say(f"{problem.get('code')}: {problem.get('detail') or problem.get('title')}")
    return Exit.DONE if found["status"] in _MADE else Exit.REFUSED


def _completed(gateway: Gateway, run: dict[str, Any]) -> dict[str, Any]:
    """Wait until a run is completed."""
    while run["state"] != "completed":
        run = gateway.get(f"/api/ad/runs/{run['runId']}", wait=_WAIT)
        output.show_progress(run["succeeded"] + run["unchanged"] + run["failed"], run["total"], "accounts")
    return run


def _show_run(run: dict[str, Any], as_json: bool) -> Exit:
    if as_json:
        output.show_json(run)
    else:
        output.show_record({name: value for name, value in run.items() if name != "results"})
        failed = [each for each in run["results"] if each.get("problem")]
        if failed:
            output.show_table(["distinguishedName", "problem.code", "problem.detail"], failed)
    return Exit.PARTLY_FAILED if run["failed"] else Exit.DONE


def _batch(command: Command, given: Given, gateway: Gateway, key: str) -> Exit:
    """Send the items, a thousand at a time; each part has an idempotency key of its own, made from the command's."""
    items = read_items(command, given.options.file)
    if "id" in ((command.item or {}).get("required") or ()):
        for item in items:
            if "id" in item and not is_id(str(item["id"])):
                item["id"] = find_id(gateway, command.resource, str(item["id"]))
    results: list[dict[str, Any]] = []
    try:
        for answer in _parts(command, given, gateway, items, key):
            results += [{**each, "index": each["index"] + len(results) - _first(answer)} for each in answer["results"]]
            output.show_progress(len(results), len(items), "items")
    except (Failure, KeyboardInterrupt):
        if results:
            output.say(f"\nThe first {len(results)} of {len(items)} items are done:")
            _show_results(results, items, as_json=given.options.json)
        raise
    if given.options.wait:
        results = [_after_decision(gateway, result) for result in results]
    return _show_results(results, items, as_json=given.options.json)


def _after_decision(gateway: Gateway, result: dict[str, Any]) -> dict[str, Any]:
    """The result of an item once its change request, if it has one, is decided and done."""
    if not result.get("changeRequestId"):
        return result
    output.say(f"Waiting for a decision on change request {result['changeRequestId']} ...")
    found = _decided(gateway, result["changeRequestId"])
    if found["status"] in _MADE:
        return {**result, "changeRequestId": None}
    problem = found.get("problem") or {"code": found["status"], "detail": found.get("comment") or "It was not made."}
    return {**result, "changeRequestId": None, "problem": problem}


def _first(answer: Mapping[str, Any]) -> int:
    return min((each["index"] for each in answer["results"]), default=0)


def _parts(
    command: Command, given: Given, gateway: Gateway, items: list[dict[str, Any]], key: str
) -> Iterator[dict[str, Any]]:
    for start in range(0, len(items), _AT_ONCE):
        part_key = key if len(items) <= _AT_ONCE else f"{key}-{start // _AT_ONCE + 1}"
        body = given.body | {"items": items[start : start + _AT_ONCE]}
        headers = given.headers | {"Idempotency-Key": part_key}
        answer = gateway.send(command.method, _path(command, given), query=given.query, headers=headers, body=body)
        yield answer.document
        if given.body.get("onError") == "stop" and answer.document["failed"]:
            return


def _show_results(results: list[dict[str, Any]], items: list[dict[str, Any]], *, as_json: bool) -> Exit:
    """Which items were done, wait, or failed and why. An item whose status is null was skipped."""
    failed = [each for each in results if each.get("problem")]
    queued = [each for each in results if each.get("changeRequestId")]
    skipped = len(items) - sum(each.get("status") is not None for each in results)
    done = len(items) - len(failed) - len(queued) - skipped
    if as_json:
        output.show_json({"total": len(items), "succeeded": done, "failed": len(failed), "queued": len(queued),
                          "skipped": skipped, "results": results})  # fmt: skip
    else:
        rows = [{**each, "item": each["index"] + 1} for each in results]
        if passwords := [row for row in rows if row.get("generatedPassword")]:
            output.show_table(["item", "id", "generatedPassword"], passwords)
        if troubled := [row for row in rows if row.get("problem")]:
            output.show_table(["item", "status", "problem.code", "problem.detail"], troubled)
        output.say(f"{done} done, {len(queued)} wait for approval, {len(failed)} failed, {skipped} skipped.")
    if failed or skipped:
        return Exit.PARTLY_FAILED if done or queued else Exit.REFUSED
    return Exit.WAITS if queued else Exit.DONE
