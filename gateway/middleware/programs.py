"""Programs' requests go straight to their views: nothing of what serves people is on their way."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase
from django.template.response import SimpleTemplateResponse

from core.errors import NotFound
from gateway.surfaces.problems import error_of, problem_response
from gateway.surfaces.routes import is_for_programs, route_of


class ProgramsMiddleware:
    """The end of the way for whatever only programs ask; a session cookie is not even looked at. Others go on."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not is_for_programs(request.path_info):
            return self.get_response(request)
        route = route_of(request)
        if route is None:
            return problem_response(request, NotFound())
        try:
            response = route.view(request, **route.arguments)
            return response.render() if isinstance(response, SimpleTemplateResponse) else response
        except Exception as error:  # noqa: BLE001 - whatever it is becomes a problem, logged if nobody foresaw it
            return problem_response(request, error_of(error))
