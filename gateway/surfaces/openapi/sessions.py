"""How sign-in and sessions are described, which are no operations. Their views say what each action answers."""

from typing import Any

from core.call import Surface
from core.paging import PageQuery
from gateway.surfaces.openapi.components import Described
from gateway.surfaces.openapi.documents import security_of
from gateway.surfaces.openapi.parameters import path_parameters


class SessionSchema(Described):
    """Describes an action of a view whose `answers` give the status and the shape of each, and its `bodies`."""

    def get_operation(self, path: str, path_regex: str, path_prefix: str, method: str, registry: Any) -> dict[str, Any]:
        self.registry = registry
        view: Any = self.view
        name = f"{view.resource}.{view.action.replace('_', '-')}"
        summary = (getattr(view, view.action).__doc__ or "").strip()
        status, shape = view.answers[view.action]
        body = view.bodies.get(view.action)
        responses = {
            status: self.json_response("Done.", shape) if shape else self.empty_response("Done."),
            **self.problems("400", "401", "403", "406", "429"),
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
            described["parameters"] += self.query_parameters(PageQuery)
        if described["parameters"] and view.action == "destroy":
            responses |= self.problems("404")
        if body:
            responses |= self.problems("413", "415", "503")
            described["requestBody"] = {
                "required": True,
                "content": {"application/json": {"schema": self.refer(body)}},
            }
        return {**described, "responses": dict(sorted(responses.items()))}
