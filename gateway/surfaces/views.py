"""The base classes of views for programs: how a request is read. REST_FRAMEWORK in the settings has the rest."""

from io import BytesIO
from typing import Any

from django.http import HttpRequest
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSetMixin

from core.call import Call

METHODS = ("get", "head", "post", "patch", "delete")
"""Without OPTIONS, since OpenAPI describes the views."""


class StrictRequest(Request):
    """A request with its `Call` in `auth`. An empty body is parsed, too, and so refused, if it has a Content-Type."""

    auth: Call

    def _load_stream(self) -> None:
        body = self._request.body
        self._stream = BytesIO(body) if body or self.content_type else None  # type: ignore[assignment]  # None: no body


class ProgramView(APIView):
    """A view without REST framework's default headers: only a response 405 names the allowed methods."""

    http_method_names = list(METHODS)

    @property
    def default_response_headers(self) -> dict[str, str]:
        return {}

    def initialize_request(self, request: HttpRequest, *_: Any, **__: Any) -> StrictRequest:
        return StrictRequest(
            request,
            parsers=self.get_parsers(),
            authenticators=self.get_authenticators(),
            negotiator=self.get_content_negotiator(),
        )

    def finalize_response(self, request: Any, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)
        if isinstance(response, Response):
            response.add_post_render_callback(self._release)
        return response

    def _release(self, response: Any) -> None:
        """Free the answer as soon as it is sent.

        REST framework's view, request and response refer to one another, and so would keep each answer (3 MB for a page
        of a thousand records) until the garbage collector finds them, which may be thousands of requests later.
        """
        del self.response
        response.renderer_context = response.data = None


class ProgramViewSet(ViewSetMixin, ProgramView):  # type: ignore[misc]  # both define initialize_request
    """A `ProgramView` with actions."""
