"""Describes the actions of our views: those that run an operation, its batches, and sign-in and sessions.

REST framework loads `SurfaceSchema` with the first document, so never in production.
"""

import re
from inspect import cleandoc
from typing import Any

from typing_extensions import NotRequired, TypedDict

from approvals.budgets import BudgetJson
from approvals.queue import QueuedAnswer
from audit.model_changes.descriptions import find_audited_model
from audit.redact import ChangeJson
from core.call import Surface
from core.operation import SIGNED_IN, Effect, Operation, Risk
from core.paging import Page, PageQuery
from core.shapes import Json, Moment
from directory.queries.reading import IDENTIFIERS
from directory.runs.requests import RunResult
from directory.shapes.record import ChangedObject, DirectoryObject
from gateway.pipeline.batches import batch_shape
from gateway.pipeline.fields import FIELDS, members_of, partial_record, record_of
from gateway.pipeline.perform import RETRY_AFTER
from gateway.pipeline.schedules import END_HEADER, SCHEDULE
from gateway.surfaces.openapi.components import ComponentSchema
from gateway.surfaces.openapi.documents import security_of
from gateway.surfaces.reading import SCHEDULE_HEADERS
from gateway.surfaces.rendering import PARTIAL, record_shape
from gateway.surfaces.viewsets import AlwaysTrue, BatchAnswer, BatchDryRun
from keys.authentication import MAX_REASON

_COMMON_PROBLEMS = "400 401 403 404 406 409 411 413 414 415 429 500 503".split()
_SINGLE_CALL_STATUSES = "201 202 204 404 412 502 504".split()
"""Statuses that a batch as a whole never has."""
_BATCH_PARAMETERS = ("dryRun", "Idempotency-Key", "reason", "X-Change-Reason", "X-Client-Id")
_HELD = ("Location", "Retry-After", "Idempotency-Replayed")
"""Headers of the answer to a change that waits."""
_TEXTS = {
    "identifier": {"type": "string", "enum": list(IDENTIFIERS)},
    "value": {"type": "string", "minLength": 1, "pattern": "^[^/]+$"},
}
_IDENTIFIERS = {
    "identifier": "The attribute to look up by.",
    "value": "Its value, percent-encoded; one with `/` can only be found by a filter.",
    "id": "The identifier; of a directory object its objectGUID.",
    "clientId": "The Client ID of the link.",
}


class DryRun(TypedDict):
    """What a change would do. Nothing was changed and nothing queued.

    `budgets` are those that it would count against, with what remains before it; absent if there are none. `applyAt` is
    when a change for later would be made, and `revertAt` when one for a while would end.
    """

    dryRun: AlwaysTrue
    wouldQueue: bool
    risk: Risk
    changes: list[ChangeJson]
    warnings: list[str]
    budgets: NotRequired[list[BudgetJson]]
    applyAt: NotRequired[Moment]
    revertAt: NotRequired[Moment]


class SurfaceSchema(ComponentSchema):
    """Describes an action by its operation or, outside of an OperationViewSet, by the attributes of its view."""

    def get_operation(self, path: str, path_regex: str, path_prefix: str, method: str, registry: Any) -> Json:
        self.registry = registry
        view: Any = self.view
        if not hasattr(view, "operations"):
            return self._describe_session(view, path)
        describe = self._describe_batch if view.action in view.batches else self._describe
        return describe(view.operations[view.action], view.surface)

    def _describe(self, operation: Operation, surface: Surface) -> Json:
        query = [] if operation.query is None else self.query_parameters(operation.query)
        described: Json = {
            "operationId": operation.name,
            "summary": operation.summary,
            "description": _description(operation),
            "tags": [operation.resource],
            "parameters": [*_parameters(operation), *self._fields(operation), *query],
            "security": security_of(surface),
            "responses": self._responses(operation),
        }
        if operation.deprecation is not None:
            described["deprecated"] = True
            for response in described["responses"].values():
                if "$ref" not in response:
                    response["headers"] |= {name: self.header(name) for name in operation.deprecation.headers}
        if operation.body is not None:
            members = operation.body.model_fields.values()
            is_required = bool(operation.body.forms) or any(member.is_required() for member in members)
            described["requestBody"] = self.json_body(operation.body, required=is_required)
        return described

    def _describe_batch(self, operation: Operation, surface: Surface) -> Json:
        """Describe a batch by what differs from the single call."""
        described = self._describe(operation, surface)
        answer = self.json_response("Every item succeeded.", BatchAnswer, "Idempotency-Replayed", or_else=BatchDryRun)
        return {
            **described,
            "operationId": f"{operation.resource}.batch-{operation.action}",
            "summary": f"Many in one request: {operation.summary[:1].lower()}{operation.summary[1:]}",
            "description": "Each item is a change of its own, with its own checks, hold, log record and result.\n\n"
            + described["description"],
            "parameters": [item for item in described["parameters"] if item["name"] in _BATCH_PARAMETERS],
            "requestBody": self.json_body(batch_shape(operation)),
            "responses": {
                **{key: value for key, value in described["responses"].items() if key not in _SINGLE_CALL_STATUSES},
                "200": answer,
                "207": answer | {"description": "Some items failed, wait for approval, or were skipped."},
            },
        }

    def _describe_session(self, view: Any, path: str) -> Json:
        """Describe an action without an operation: `view.answers` has its status and shape, `view.bodies` its body."""
        summary = (getattr(view, view.action).__doc__ or "").strip()
        status, shape = view.answers[view.action]
        body = view.bodies.get(view.action)
        responses = {
            status: self.json_response("Done.", shape) if shape else self.empty_response("Done."),
            **self.problems("400", "401", "403", "406", "429"),
        }
        described: Json = {
            "operationId": f"{view.resource}.{view.action.replace('_', '-')}",
            "summary": summary,
            "description": summary,
            "tags": ["session"],
            "security": [] if body else security_of(Surface.REST),
            "parameters": _path_parameters(path),
        }
        if view.action == "list":
            described["parameters"] += self.query_parameters(PageQuery)
        if described["parameters"] and view.action == "destroy":
            responses |= self.problems("404")
        if body:
            responses |= self.problems("413", "415", "503")
            described["requestBody"] = self.json_body(body)
        return {**described, "responses": dict(sorted(responses.items()))}

    def _responses(self, operation: Operation) -> Json:
        success, has_version = str(operation.status), _has_version(operation)
        is_read, is_change = operation.effect is Effect.READ, operation.effect is Effect.CHANGE
        behind = ["Gateway-Replication"] if is_read and operation.needs_directory else []
        headers = [
            *(["ETag"] if has_version else []),
            *(["Location"] if success == "201" else []),
            *(["Idempotency-Replayed"] if operation.method != "GET" else []),
            *behind,
            *([END_HEADER] if is_change and operation.needs_directory and operation.inverse else []),
            *(["Retry-After"] if operation.name in RETRY_AFTER else []),
        ]
        if operation.output is None:
            responses: Json = {success: self.empty_response("Done.", *headers)}
        else:
            responses = {success: self.json_response("Done.", _answer_of(operation), *headers)}
            self._add_partial(operation, responses[success])
            self._add_stream(operation, responses[success])
        if is_change:
            self._add_dry_run_and_hold(operation, responses)
        if operation.effect is Effect.ADMINISTER and find_audited_model(operation.resource).gives_access:
            meaning = "More access waits for a second person (`Approvals:AccessNeedsTwo`)."
            responses["202"] = self.json_response(meaning, QueuedAnswer, *_HELD)
        if is_read and has_version:
            responses["304"] = self.empty_response("The version is one of those in If-None-Match.", "ETag", *behind)
        responses |= self.problems(
            *_COMMON_PROBLEMS,
            *(["412"] if not is_read else []),
            *(["422"] if operation.method != "GET" else []),
            *(["502"] if operation.needs_directory else []),
            *(["504"] if is_change else []),
        )
        return dict(sorted(responses.items()))

    def _fields(self, operation: Operation) -> list[Json]:
        shape = record_of(operation)
        if shape is None:
            return []
        members = members_of(operation)
        name = f"{shape.__name__}Field" if shape.__required_keys__.issuperset(members) else f"{shape.__name__}AnyField"
        names = self.refer_to_words(name, members)
        meant = f"The members of records to answer, with commas, as `{PARTIAL}`; all unless given."
        listed = {"type": "array", "items": names}
        return [
            {"name": FIELDS, "in": "query", "schema": listed, "style": "form", "explode": True, "description": meant}
        ]

    def _add_partial(self, operation: Operation, done: Json) -> None:
        """Describe the answer with some members, whose type of its own keeps the shape of the whole one as it is."""
        shape = record_of(operation)
        if shape is not None:
            part = partial_record(shape)
            answer = part if operation.output is shape else Page[part]  # type: ignore[valid-type]
            done["content"][PARTIAL] = {"schema": self.refer(answer)}

    def _add_stream(self, operation: Operation, done: Json) -> None:
        shape = record_shape(operation.output)
        if shape is None:
            return
        is_object = record_of(operation) is not None
        line = self.refer_to_one_of(shape, partial_record(shape)) if is_object else self.refer(shape)
        done["description"] = (
            "A page; or the whole result, one record a line, with `Accept: application/x-ndjson` or `text/csv`, which"
            " take no `pageSize` and no `cursor`. A last line that is not finished tells what broke a stream off."
        )
        done["content"] |= {
            "application/x-ndjson": {"schema": line},
            "text/csv": {"schema": {"type": "string"}},
        }

    def _add_dry_run_and_hold(self, operation: Operation, responses: Json) -> None:
        if "200" not in responses:
            responses["200"] = self.json_response("With `dryRun`.", DryRun, "Idempotency-Replayed")
        else:
            body = responses["200"]["content"]["application/json"]
            body["schema"] = self.refer_to_one_of(DryRun, _answer_of(operation))
        if operation.output is RunResult:
            responses["207"] = self.json_response("Some accounts failed.", RunResult, "Idempotency-Replayed")
            meaning = "Waits for approval, or still runs."
            responses["202"] = self.json_response(meaning, RunResult, *_HELD, or_else=QueuedAnswer)
        else:
            responses["202"] = self.json_response("Waits for approval.", QueuedAnswer, *_HELD)


def _answer_of(operation: Operation) -> Any:
    """The shape of an answer. A caller who may change but not read objects gets less than the whole record."""
    changes_record = operation.effect is Effect.CHANGE and operation.output is DirectoryObject
    return ChangedObject if changes_record else operation.output


def _has_version(operation: Operation) -> bool:
    """Whether the answer is one object with its version."""
    return "version" in getattr(operation.output, "__annotations__", {})


def _description(operation: Operation) -> str:
    text = cleandoc(operation.function.__doc__ or "")
    if operation.deprecation is not None:
        text += f"\n\nRemoved on {operation.deprecation.sunset} at the earliest. {operation.deprecation.instead}"
    if operation.permission == {SIGNED_IN}:
        return text + "\n\nPermission: any valid credential."
    joined = " or ".join(f"`{name}`" for name in sorted(operation.permission))
    return f"{text}\n\nPermission: {joined}."


def _parameters(operation: Operation) -> list[Json]:
    """The parameters that are not in an operation's shapes: path, `dryRun`, reason, preconditions, idempotency."""
    found = _path_parameters(operation.path)
    if operation.effect is Effect.CHANGE:
        dry_run = {"name": "dryRun", "in": "query", "schema": {"type": "boolean", "default": False}}
        found.append({**dry_run, "description": "Answer what would be changed, and change nothing."})
        why = "Why: kept in the log and shown to the approver. In UTF-8, or percent-encoded."
        # Percent-encoded, a character of the reason takes up to nine.
        found.append(_header("X-Change-Reason", why, minLength=1, maxLength=9 * MAX_REASON))
        text = {"type": "string", "minLength": 1, "maxLength": MAX_REASON, "pattern": r"\S"}
        instead = "Why, for programs that cannot set `X-Change-Reason`: one of the two."
        found.append({"name": "reason", "in": "query", "schema": text, "description": instead})
    if operation.effect is not Effect.READ:
        meant = "The version the change is meant for; another one is 412."
        if operation.is_creation:
            meant = "What is still to be made has no version: anything but `*` is 412."
        found.append(_header("If-Match", meant))
    if operation.effect is Effect.CHANGE and operation.needs_directory:
        # No format: openapi-python-client makes nothing of an operation that takes a time in a header.
        found += [_header(name, SCHEDULE[member]) for name, member in SCHEDULE_HEADERS.items()]
    if operation.method != "GET":
        once = "The same request under the same key is carried out once, within 24 hours."
        found.append(_header("Idempotency-Key", once, minLength=1, maxLength=255, pattern=r"^[\x20-\x7e]+$"))
    if operation.effect is Effect.READ and _has_version(operation):
        found.append(_header("If-None-Match", "The version that is known already: nothing else is answered with 304."))
    if operation.needs_directory:
        meant = "The Client ID of the directory link to use; needed if there are several."
        # No format: generated clients would put a UUID object into the header instead of its text.
        found.append(_header("X-Client-Id", meant, minLength=36, maxLength=36))
    return found


def _path_parameters(path: str) -> list[Json]:
    """The parameters in a path: UUIDs but for those in `_TEXTS`."""
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _IDENTIFIERS.get(name, "The identifier."),
            "schema": _TEXTS.get(name, {"type": "string", "format": "uuid"}),
        }
        for name in re.findall(r"\{(\w+)\}", path)
    ]


def _header(name: str, description: str, **limits: Any) -> Json:
    return {"name": name, "in": "header", "schema": {"type": "string", **limits}, "description": description}
