"""A few views of every kind, behind the real middleware: what is tested here must not depend on what operations do."""

from types import SimpleNamespace
from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse, StreamingHttpResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from rest_framework.request import Request
from rest_framework.views import APIView

from core import rate_limits
from core.errors import FieldError, InvalidRequest
from core.operation import RateCategory
from gateway.monitoring.metrics import exposition
from gateway.surfaces import problems

SECRET = "dgk_abcdefghijkl_" + "s" * 38


@csrf_exempt
def echo(request: Any, **_: str) -> HttpResponse:
    body = request.body
    return JsonResponse(
        {
            "address": request.client_address,
            "secure": request.is_secure(),
            "requestId": request.request_id,
            "length": len(body),
            "body": body[:40].decode(),
        }
    )


def echo_with_csrf(request: HttpRequest) -> HttpResponse:
    return echo(request)


def alive(request: HttpRequest) -> HttpResponse:
    return JsonResponse({"status": "ok"})


def measurements(request: HttpRequest) -> HttpResponse:
    return HttpResponse(exposition(), content_type="text/plain")


def get_only(request: HttpRequest) -> HttpResponse:
    return HttpResponseNotAllowed(["GET"])


def long(request: HttpRequest, length: int) -> HttpResponse:
    return JsonResponse({"text": "a" * length})


def stream(request: HttpRequest) -> StreamingHttpResponse:
    lines = (b'{"line": %d}\n' % number for number in range(3))
    return StreamingHttpResponse(lines, content_type="application/x-ndjson")


def fail(request: HttpRequest) -> HttpResponse:
    raise ValueError(f"internals and {SECRET}")


@csrf_exempt
def change_password(request: HttpRequest, id: str) -> HttpResponse:
    rate_limits.count_password_change(UUID(id))
    return HttpResponse(status=204)


class View(APIView):
    def get(self, request: Request, kind: str) -> HttpResponse:
        if kind == "missing":
            raise Http404
        if kind == "fail":
            raise ValueError(f"internals and {SECRET}")
        raise InvalidRequest("kind: no", errors=[FieldError("Request.Invalid", "no", parameter="kind")])


def as_operation(view: Any, method: str, rate: RateCategory) -> Any:
    view.operations = {method: SimpleNamespace(name=f"tests.{rate.lower()}", rate=rate)}
    return view


@csrf_exempt
def search(request: HttpRequest) -> HttpResponse:
    return JsonResponse({})


@csrf_exempt
def reset(request: HttpRequest, id: str) -> HttpResponse:
    return HttpResponse(status=204)


urlpatterns = [
    path("health", alive),
    path("metrics", measurements),
    path("api/echo", echo),
    path("rest/echo", echo_with_csrf),
    path("page", echo),
    path("api/long/<int:length>", long),
    path("rest/long/<int:length>", long),
    path("api/stream", stream),
    path("api/fail", fail),
    path("api/get-only", get_only),
    path("api/view/<str:kind>", View.as_view()),
    path("api/ad/users", as_operation(search, "GET", RateCategory.DIRECTORY_SEARCH)),
    path("api/ad/users/<str:id>/reset-password", as_operation(reset, "POST", RateCategory.PASSWORD_RESET)),
    path("api/ad/users/<str:id>/change-password", as_operation(change_password, "POST", RateCategory.PASSWORD_CHANGE)),
    path("api/ad/users/batch/update", echo),
]

handler400 = problems.handler400
handler403 = problems.handler403
handler404 = problems.handler404
handler500 = problems.handler500
