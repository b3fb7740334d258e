"""How sign-in and sessions are described, which are no operations. Their views say what each action answers."""

from typing import Any

from core.call import Surface
from core.paging import PageQuery
from gateway.surfaces.openapi.components import Described
from gateway.surfaces.openapi.documents import security_of
from gateway.surfaces.openapi.parameters import path_parameters


def describe_session(schema: Described, view: Any, path: str) -> dict[str, Any]:
    """The description of an action. `view.answers` gives the status and the shape of each, `view.bodies` its body."""
    name = f"{view.resource}.{view.action.replace('_', '-')}"
    summary = (getattr(view, view.action).__doc__ or "").strip()
    status, shape = view.answers[view.action]
    body = view.bodies.get(view.action)
    responses = {
        status: schema.json_response("Done.", shape) if shape else schema.empty_response("Done."),
        **schema.problems("400", "401", "403", "406", "429"),
    }
    described: dict[str, Any] = {
        "operationId": name,
        "summary": summary,
        "description": summary,
        "tags": ["session"],
        "security": [] if body else security_of(Surface.REST),
        "parameters": path_parameters(path),
    }
    if view.action == "list":
        described["parameters"] += schema.query_parameters(PageQuery)
    if described["parameters"] and view.action == "destroy":
        responses |= schema.problems("404")
    if body:
        responses |= schema.problems("413", "415", "503")
        described["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema.refer(body)}},
        }
    return {**described, "responses": dict(sorted(responses.items()))}
