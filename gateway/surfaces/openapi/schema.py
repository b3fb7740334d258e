"""The schema class of all our views, which REST framework loads with the first document: in production none is made."""

from typing import Any

from gateway.surfaces.openapi.batches import describe_batch
from gateway.surfaces.openapi.components import Described
from gateway.surfaces.openapi.operations import describe_operation
from gateway.surfaces.openapi.sessions import describe_session


class SurfaceSchema(Described):
    """Describes an action: of an OperationViewSet by its operation, else by what its view says of it."""

    def get_operation(self, path: str, path_regex: str, path_prefix: str, method: str, registry: Any) -> dict[str, Any]:
        self.registry = registry
        view: Any = self.view
        if not hasattr(view, "operations"):
            return describe_session(self, view, path)
        describe = describe_batch if view.action in view.batches else describe_operation
        return describe(self, view.operations[view.action], view.surface)
