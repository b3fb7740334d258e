"""Problem details for what no API view answered: unknown paths, wrong methods, refusals and failures of Django."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, HttpResponseBase

from core.errors import GatewayError
from gateway.surfaces.problems import as_problem, error_of, error_response, is_machine_path, problem_response


class ProblemMiddleware:
    """Where programs ask, and supervisors, no error leaves as a page; everywhere a GatewayError becomes its answer."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if response.status_code >= 400 and is_machine_path(request.path):
            return as_problem(request, response)
        return response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Exceptions of plain Django views; those of API views are handled before they get here."""
        if is_machine_path(request.path):
            return problem_response(request, error_of(exception))
        return error_response(request, exception) if isinstance(exception, GatewayError) else None
