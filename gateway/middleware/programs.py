"""Sends requests of programs straight to their views, and renders all their errors as problem details."""

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.template.response import SimpleTemplateResponse

from core.errors import GatewayError, NotFound
from gateway.middleware import Middleware
from gateway.surfaces.problems import as_problem, error_of, error_response, is_machine_path, problem_response
from gateway.surfaces.routes import is_for_programs, route_of


class ProgramsMiddleware(Middleware):
    """Answers requests to the paths of programs without the middleware for browsers, hence without sessions."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not is_for_programs(request.path_info):
            return self.get_response(request)
        route = route_of(request)
        if route is None:
            return problem_response(request, NotFound())
        try:
            response = route.view(request, **route.arguments)
            return response.render() if isinstance(response, SimpleTemplateResponse) else response
        except Exception as error:  # noqa: BLE001 - every error becomes a problem, and an unexpected one is logged
            return problem_response(request, error_of(error))


class ProblemMiddleware(Middleware):
    """Renders errors as problem details on machine paths, and a GatewayError elsewhere as a page."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if response.status_code >= 400 and is_machine_path(request.path):
            return as_problem(request, response)
        return response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Handle exceptions of plain Django views; REST framework has already handled those of its own."""
        if is_machine_path(request.path):
            return problem_response(request, error_of(exception))
        return error_response(request, exception) if isinstance(exception, GatewayError) else None
