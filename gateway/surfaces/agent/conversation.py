"""Serves one request of an agent: lists the tools that its permissions allow, and calls them.

`planning` decides what a call does, and `results` renders what came of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from django.http import HttpRequest

from approvals.messages import link_to
from core.call import Call
from core.errors import Forbidden, GatewayError, RateLimited, ServiceUnavailable
from core.operation import Operation
from core.rate_limits import count_category
from core.shapes import Json
from directory.lookup.visibility import may_see_values
from gateway import pipeline
from gateway.monitoring import metrics
from gateway.pipeline.batches import execute_batch
from gateway.pipeline.inputs import require_admitted
from gateway.pipeline.recording import record_refusal
from gateway.surfaces.agent.planning import Plan, plan_call
from gateway.surfaces.agent.plans import ChangePlan
from gateway.surfaces.agent.results import batch_result, made_result, plan_result, result, success
from gateway.surfaces.agent.schemas import input_schema, output_schema
from gateway.surfaces.agent.tools import (
    CHANGE_REQUESTS,
    PLAN,
    PLANNABLE,
    PREVIEW,
    PREVIEWABLE,
    SENTENCES,
    TOOLS,
    Behaviour,
    Tool,
)
from gateway.surfaces.problems import error_of, problem_of
from gateway.surfaces.viewsets import batch_answer
from keys.agents import step_up
from keys.agents.metadata import issuer_of


class UnknownTool(Exception):
    """No tool has this name."""


class AgentConversation:
    """One request of an agent. `challenge` is the answer in place of a tool's result, if its program has to ask."""

    def __init__(self, request: HttpRequest, call: Call) -> None:
        self._request = request
        self._call = call
        self.challenge: step_up.InsufficientScope | None = None

    def list_tools(self) -> list[Json]:
        """List the tools that the caller may use at least in part, or could after asking its person."""
        usable = self._call.permissions | step_up.consentable(self._call)
        ways = {tool.name: tool.ways_of(usable) for tool in TOOLS.values()}
        previewable = tuple(
            name for name in PREVIEWABLE if TOOLS[name].has_dry_run(ways[name]) and may_see_values(self._call)
        )
        named = {PREVIEW: previewable, PLAN: tuple(name for name in previewable if name in PLANNABLE)}
        may_search = bool(ways["search_directory"])
        return [
            {
                "name": tool.name,
                "title": tool.title,
                "description": tool.description,
                "inputSchema": input_schema(
                    tool.name, ways[tool.name], named.get(tool.name, ()), may_search=may_search
                ),
                "outputSchema": output_schema(tool.name, ways[tool.name]),
                # Clients may ask their user before some calls; these are the strongest effects of the tool.
                "annotations": {
                    "readOnlyHint": tool.behaviour is Behaviour.READS,
                    "destructiveHint": tool.behaviour is Behaviour.CHANGES,
                    "idempotentHint": tool.is_idempotent,
                    "openWorldHint": False,
                },
            }
            for tool in TOOLS.values()
            if named.get(tool.name, {action for _, action in ways[tool.name]} - tool.includes)
        ]

    def call_tool(self, name: str, arguments: Mapping[str, Any]) -> Json:
        """Call a tool and return its result, which may be a refusal; raises UnknownTool."""
        tool = TOOLS.get(name)
        if tool is None:
            raise UnknownTool
        try:
            if tool.name == PLAN:
                return self._run_changes(ChangePlan(arguments, self._call))
            plan = plan_call(tool, arguments, self._call)
            self._count(plan)
            if plan.batch is not None:
                return self._run_batch(plan, plan.batch)
            return _run_plan(plan, arguments, origin=issuer_of(self._request))
        except Exception as error:  # noqa: BLE001 - the agent's problem handler
            refusal = error_of(error)
            scopes: list[str] = []
            if isinstance(refusal, Forbidden) and refusal.missing:
                scopes = step_up.lacking_scopes(self._call, refusal.missing)
                self.challenge = step_up.challenge(self._request, self._call, refusal.missing)
            problem = problem_of(self._request, refusal)
            _name_arguments(problem, tool, arguments)
            return _refusal(problem, scopes)

    def _run_changes(self, changes: ChangePlan) -> Json:
        plans = changes.previews()
        for operation in {plan.operation.name: plan.operation for plan in plans}.values():
            pipeline.require_admission(operation, changes.call)
        for plan in {plan.operation.rate: plan for plan in plans}.values():
            self._count(plan)
        changes.charge()
        shown = changes.preview(plans)
        if changes.digest is None:
            return plan_result(shown)
        return made_result([_item_of(self._request, *made) for made in changes.apply(shown)])

    def _run_batch(self, plan: Plan, items: Sequence[Any]) -> Json:
        try:
            require_admitted(plan.operation, plan.call)
            plan.inputs.query()  # raises what is wrong with the arguments
            done = execute_batch(
                plan.operation, replace(plan.call, dry_run=plan.is_preview), items, on_error="continue"
            )
        except GatewayError as refusal:
            record_refusal(plan.operation, plan.call, {}, refusal.code)
            raise
        return batch_result(plan, batch_answer(self._request, done))

    def _count(self, plan: Plan) -> None:
        """Count the call against the limits of its operations; raises RateLimited or ServiceUnavailable."""
        for category in {operation.rate for operation in plan.operations}:
            try:
                address = self._request.client_address  # type: ignore[attr-defined]
                count_category(category, address, f"agent:{self._call.credential.unique_id}")
            except (RateLimited, ServiceUnavailable):
                metrics.count_refusal(category)
                raise


class RefusedConversation(AgentConversation):
    """The request of an agent whose address has exceeded the limit of all requests: each tool answers with that."""

    def __init__(self, request: HttpRequest, refusal: GatewayError) -> None:
        self._request = request
        self._refused = refusal
        self.challenge = None

    def call_tool(self, name: str, arguments: Mapping[str, Any]) -> Json:
        return _refusal(problem_of(self._request, self._refused))


def _item_of(request: HttpRequest, operation: Operation, made: pipeline.Answer | Exception) -> Json:
    """What became of one change of a plan."""
    if isinstance(made, Exception):
        return {"operation": operation.name, "problem": problem_of(request, error_of(made))}
    item = {"operation": operation.name, "status": made.status}
    if isinstance(made.body, dict):
        item |= {name: made.body[name] for name in ("id", "generatedPassword") if name in made.body}
        if "changeRequest" in made.body:
            item["changeRequestId"] = made.body["changeRequest"]["id"]
    return item


def _run_plan(plan: Plan, arguments: Mapping[str, Any], *, origin: str) -> Json:
    for operation, _ in plan.includes.values():  # before anything is read
        pipeline.require_admission(operation, plan.call)
    answer = pipeline.run(plan.operation, plan.call, plan.inputs)
    _add_pages(plan, answer.body, origin)
    included: Json = {}
    for name, (operation, query) in plan.includes.items():
        inputs = pipeline.Inputs(arguments={"id": answer.body["id"]}, query=partial(dict, query), document=dict)
        included[name] = pipeline.run(operation, plan.call, inputs).body
    return success(plan, answer, included, arguments)


def _name_arguments(problem: Json, tool: Tool, arguments: Mapping[str, Any]) -> None:
    """Let errors name the tool's arguments, not the parameters and members that its operation gets from them."""
    above = "#"
    if tool.name == PREVIEW and arguments.keys() == {"tool", "arguments"} and isinstance(arguments["arguments"], dict):
        if arguments["tool"] not in list(PREVIEWABLE):
            return
        above, tool = "#/arguments", TOOLS[arguments["tool"]]
    for error in problem.get("errors", ()):
        said = error.pop("parameter", None)
        if said is None:
            said = error["pointer"]
            error["pointer"] = above + said.removeprefix("#")
        else:
            error["pointer"] = f"{above}/{tool.renamed.get(said, said)}"
        problem["detail"] = problem["detail"].replace(f"{said}: ", f"{error['pointer']}: ")


def _add_pages(plan: Plan, body: Any, origin: str) -> None:
    """Add to each change request that waits the address of its page, where a person decides about it."""
    requests = [body["changeRequest"]] if isinstance(body, dict) and "changeRequest" in body else []
    if plan.way[0] == CHANGE_REQUESTS:
        requests = body.get("items", [body])
    for request in requests:
        if request.get("status") == "pending":
            request["page"] = link_to(request["id"], origin=origin)


def _refusal(problem: Json, scopes: Sequence[str] = ()) -> Json:
    """The result of a refused call, with its problem details and the scopes that the agent lacks for it."""
    code, status = problem["code"], problem["status"]
    lacking = f"This needs the scope {' or '.join(scopes)}, which you do not have. " if scopes else ""
    next_step = SENTENCES["next_steps"].get(code) or _next_step_by_status(status)
    return result(f"Refused ({code}). {lacking}{next_step}", problem, is_error=True)


def _next_step_by_status(status: int) -> str:
    if status == 409:
        return "What is there does not allow it: look with read_object first."
    if status in (429, 503):
        return "Nothing was done. Wait a while, then try once more."
    if status >= 500:
        return "Do not try again at once: tell the person you work for."
    return "See detail, correct the call and try again."
