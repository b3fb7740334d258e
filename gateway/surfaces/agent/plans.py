"""Many changes of an agent as one: previewed together, refused or made together, and decided about together.

What waits shares one `call_id`, so that people review it as one group. Each change passes the pipeline as a call of its
own; a plan adds no right to anything.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from core.call import Call, SupervisionLevel
from core.errors import Conflict, GatewayError, InvalidRequest, UnknownMember, invalid_member
from core.operation import Operation
from core.shapes import Json
from gateway import pipeline
from gateway.pipeline.execute import capture_error
from gateway.pipeline.prepare import charge
from gateway.surfaces.agent.planning import Arguments, Plan, bad_argument, plan_call
from gateway.surfaces.agent.tools import PLANNABLE, PREVIEW, RUN_KIND, TOOLS
from keys.authentication import check_reason

MAX_CHANGES = 100


class PlanRefused(GatewayError):
    """Nothing of a plan is done while one of its changes cannot be."""

    status, code, title = 409, "Plans.Refused", "A change of the plan cannot be made"


class PlanChanged(Conflict):
    """What the plan would do is no longer what was previewed."""

    code, title = "Plans.Changed", "The plan would do something else now"


class ChangePlan:
    """The changes that an agent names, each for one object. Raises InvalidRequest for arguments that are none."""

    def __init__(self, given: Mapping[str, Any], call: Call) -> None:
        arguments = Arguments(given)
        changes = arguments.take("changes")
        if not isinstance(changes, list) or not changes:
            raise bad_argument("changes", "must be a list of changes, each with tool and arguments")
        self.digest = arguments.text("digest")
        reason = arguments.text("reason")
        for name in arguments.rest:
            raise bad_argument(name, "is not known here", UnknownMember)
        if arguments.problem is not None:
            raise arguments.problem
        if self.digest is not None and (reason is None or not reason.strip()):
            raise bad_argument("reason", "is needed: say why, for the person who approves the plan and for the log")
        self.call = replace(call, reason=check_reason(reason)) if reason else call
        self._reason = reason
        expanded = [(place, *item) for place, change in enumerate(changes) for item in _expanded(place, change)]
        self._items = [(tool, arguments) for _, tool, arguments in expanded]
        self._places = [place for place, *_ in expanded]
        if len(self._items) > MAX_CHANGES:
            raise bad_argument("changes", f"are {len(self._items)} changes; at most {MAX_CHANGES} may be")

    def previews(self) -> list[Plan]:
        """Each change as a call that only shows what it would do."""
        return [
            self._plan(place, PREVIEW, {"tool": tool, "arguments": arguments}, self.call)
            for place, (tool, arguments) in enumerate(self._items)
        ]

    def preview(self, plans: list[Plan]) -> Json:
        """What each would do, or why it cannot be; and what they are together. Nothing is changed."""
        changes: list[Json] = []
        for place, plan in enumerate(plans):
            shown = capture_error(partial(pipeline.run, plan.operation, plan.call, plan.inputs))
            item: Json = {"index": place, "operation": plan.operation.name}
            if isinstance(shown, Exception):
                if not isinstance(shown, GatewayError):
                    raise shown
                item["problem"] = {"code": shown.code, "detail": shown.detail or shown.title}
            else:
                item |= {name: shown.body[name] for name in _SHOWN if shown.body.get(name)}
            changes.append(item)
        whole = json.dumps([self.call.credential.unique_id, self._items, changes], sort_keys=True, default=str)
        return {"digest": hashlib.sha256(whole.encode()).hexdigest()[:32], "changes": changes}

    def apply(self, shown: Mapping[str, Any]) -> list[tuple[Operation, pipeline.Answer | Exception]]:
        """Make the changes in their order, or hold all of them if one has to wait; raises if one cannot be made."""
        bad = [item["index"] for item in shown["changes"] if "problem" in item]
        if bad:
            raise PlanRefused(f"{_UNDONE} Changes {', '.join(map(str, bad))} cannot be made. Preview the plan.")
        if shown["digest"] != self.digest:
            raise PlanChanged(f"{_UNDONE} Preview the plan again.")
        call = self.call
        if any(item.get("wouldQueue") for item in shown["changes"]):
            call = replace(call, supervision=SupervisionLevel.ASK_EVERY_CHANGE)
        made: list[tuple[Operation, pipeline.Answer | Exception]] = []
        for place, (tool, arguments) in enumerate(self._items):
            plan = self._plan(place, tool, {**arguments, "reason": self._reason}, call)
            run = partial(pipeline.run, plan.operation, plan.call, plan.inputs)
            made.append((plan.operation, capture_error(run)))
        return made

    def charge(self) -> None:
        """Count the changes as those of a batch; raises RateLimited."""
        charge(self.call, [arguments for _, arguments in self._items], items=len(self._items))

    def _plan(self, place: int, tool: str, arguments: Mapping[str, Any], call: Call) -> Plan:
        try:
            return plan_call(TOOLS[tool], arguments, replace(call, batch_index=place))
        except InvalidRequest as refusal:
            (error,) = refusal.errors
            inner = str(error.pointer).removeprefix("#/").removeprefix("arguments/")
            raise invalid_member(f"changes/{self._places[place]}/arguments/{inner}", error.detail) from None


_UNDONE = "This call changed nothing; if it is a retry, the call before may have: see my_changes."
_SHOWN = ("target", "changes", "risk", "wouldQueue", "warnings")


def _expanded(place: int, change: Any) -> Iterator[tuple[str, Json]]:
    """A change of each of the objects that `ids` names, or the one that its arguments are for."""
    where = f"changes/{place}"
    if not isinstance(change, dict) or change.keys() - {"tool", "arguments", "ids"}:
        raise invalid_member(where, "must have tool and arguments, and may have ids")
    tool, arguments, ids = change.get("tool"), change.get("arguments"), change.get("ids")
    if tool not in PLANNABLE:
        raise invalid_member(f"{where}/tool", f"must be one of {', '.join(PLANNABLE)}")
    if not isinstance(arguments, dict) or "reason" in arguments:
        raise invalid_member(f"{where}/arguments", "must be an object, without reason")
    if tool == "change_account" and arguments.get("kind") == RUN_KIND:
        raise invalid_member(f"{where}/arguments/kind", "is for change_account alone: name the accounts")
    if ids is None:
        yield tool, arguments
        return
    if not isinstance(ids, list) or not ids or not all(isinstance(id, str) for id in ids) or "id" in arguments:
        raise invalid_member(f"{where}/ids", "must be a list of ids, in place of id in arguments")
    yield from ((tool, {**arguments, "id": id}) for id in dict.fromkeys(ids))
