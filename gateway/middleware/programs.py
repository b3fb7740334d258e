"""Programs' requests of operations go straight to their views: nothing of what serves people is on their way."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase

from gateway.surfaces.routes import is_for_programs, route_of


class ProgramsMiddleware:
    """The end of the way for the operations of the machine surface; every other request goes on."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        route = route_of(request) if is_for_programs(request.path_info) else None
        if route is None or not route.is_direct:
            return self.get_response(request)
        return route.view(request, **route.arguments)
