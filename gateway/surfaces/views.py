"""What the views of programs have in common, besides the settings of REST framework: how a request is read."""

from io import BytesIO
from typing import Any

from django.http import HttpRequest
from rest_framework.request import Request
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSetMixin

from core.call import Call

METHODS = ("get", "head", "post", "patch", "delete")
"""OPTIONS describes nothing here; OpenAPI does."""


class StrictRequest(Request):
    """A request of a caller that is known; an empty body is parsed, too, if a media type says that there is one."""

    auth: Call

    def _load_stream(self) -> None:
        body = self._request.body
        self._stream = BytesIO(body) if body or self.content_type else None  # type: ignore[assignment]  # None: no body


class ProgramView(APIView):
    """A view that says of itself nothing but its answer: 405 alone names the methods that are allowed."""

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


class ProgramViewSet(ViewSetMixin, ProgramView):  # type: ignore[misc]  # both make the request of the other
    """The same with actions."""
