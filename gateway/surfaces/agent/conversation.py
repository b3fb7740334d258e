"""What one request of an agent may use and gets: the tools that its permissions are for, and their calls."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from django.http import HttpRequest

from core.call import Call
from core.errors import GatewayError, RateLimited, ServiceUnavailable
from core.rate_limits import count_category
from directory.lookup.visibility import may_see_values
from gateway import pipeline
from gateway.monitoring import metrics
from gateway.surfaces.agent import results
from gateway.surfaces.agent.planning import Plan, plan_call
from gateway.surfaces.agent.schemas import input_schema, output_schema
from gateway.surfaces.agent.tools import PREVIEW, PREVIEWABLE, TOOLS, Behaviour, Tool
from gateway.surfaces.problems import error_of, problem_of


class UnknownTool(Exception):
    """There is no tool of that name."""


class AgentConversation:
    """One request of an agent, as its `call` says who it is. `limited` is set when it has gone over a limit."""

    def __init__(self, request: HttpRequest, call: Call) -> None:
        self._request = request
        self._call = call
        self.limited: GatewayError | None = None

    def list_tools(self) -> list[dict[str, Any]]:
        """The tools of which the caller may use anything at all, with what they may use of them."""
        ways = {tool.name: tool.ways_of(self._call) for tool in TOOLS.values()}
        previewable = tuple(name for name in PREVIEWABLE if ways[name] and may_see_values(self._call))
        return [
            {
                "name": tool.name,
                "title": tool.title,
                "description": tool.description,
                "inputSchema": input_schema(tool.name, ways[tool.name], previewable),
                "outputSchema": output_schema(tool.name, ways[tool.name]),
                "annotations": _annotations(tool),
            }
            for tool in TOOLS.values()
            if (previewable if tool.name == PREVIEW else ways[tool.name] - _only_included(tool))
        ]

    def call_tool(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The result of a call of a tool, a refusal too; raises UnknownTool."""
        tool = TOOLS.get(name)
        if tool is None:
            raise UnknownTool
        try:
            plan = plan_call(tool, arguments, self._call)
            self._count(plan)
            return _carry_out(plan, arguments)
        except Exception as error:  # noqa: BLE001 - the agent's problem handler
            return results.refused(problem_of(self._request, error_of(error)))

    def _count(self, plan: Plan) -> None:
        """Count the call against the limits of its operations; over one it ends, as any request does."""
        for category in {operation.rate for operation in plan.operations}:
            try:
                count_category(category, self._request.client_address)  # type: ignore[attr-defined]
            except (RateLimited, ServiceUnavailable) as refusal:
                metrics.count_refusal(category)
                self.limited = refusal
                raise


def _only_included(tool: Tool) -> set[tuple[str, str]]:
    return {way for way in tool.serves if way[1] in tool.includes}


def _annotations(tool: Tool) -> dict[str, Any]:
    """What a tool does at most, for clients that ask their user before some."""
    return {
        "readOnlyHint": tool.behaviour is Behaviour.READS,
        "destructiveHint": tool.behaviour is Behaviour.CHANGES,
        "idempotentHint": tool.behaviour not in (Behaviour.ADDS, Behaviour.WITHDRAWS),
        "openWorldHint": False,
    }


def _carry_out(plan: Plan, arguments: Mapping[str, Any]) -> dict[str, Any]:
    for operation, _ in plan.includes.values():  # before anything is read
        pipeline.require_admission(operation, plan.call)
    answer = pipeline.run(plan.operation, plan.call, plan.inputs)
    included: dict[str, Any] = {}
    for name, (operation, query) in plan.includes.items():
        inputs = pipeline.Inputs(arguments={"id": answer.body["id"]}, query=partial(dict, query), document=dict)
        included[name] = pipeline.run(operation, plan.call, inputs).body
    return results.done(plan, answer, included, arguments)
