"""Views that are slow, long or of every kind of answer, as the application that a real server runs."""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import django
from django.conf import settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")
django.setup()
settings.ROOT_URLCONF = "tests.gateway.server.served"

from django.http import (  # noqa: E402 - after Django is set up
    FileResponse,
    HttpRequest,
    HttpResponse,
    HttpResponseNotModified,
    JsonResponse,
    StreamingHttpResponse,
)
from django.urls import path  # noqa: E402

from core.deadlines import current_deadline  # noqa: E402
from gateway.server.asgi import DjangoApplication, RequestGateway  # noqa: E402
from tests.gateway.middleware import urls  # noqa: E402

seen = {"blocks": 0, "closed": 0}


def headers(request: HttpRequest) -> HttpResponse:
    return JsonResponse({name: value for name, value in request.META.items() if name.startswith("HTTP_")})


def what_was_seen(request: HttpRequest) -> HttpResponse:
    return JsonResponse(seen)


def hold(request: HttpRequest) -> HttpResponse:
    """Leave a file named for its process in the folder that is given, and wait there for one with the name `go`."""
    folder = Path(request.GET["folder"])
    Path(folder, f"{os.getpid()}-{uuid4().hex}").touch()
    while not Path(folder, "go").exists():
        time.sleep(0.02)
    return JsonResponse({})


def wait_until_gone(request: HttpRequest) -> HttpResponse:
    """Leave a file once it begins, and another one when the client has gone away."""
    deadline = current_deadline.get()
    assert deadline is not None
    Path(request.GET["folder"], "begun").touch()
    while not deadline.is_client_gone:
        time.sleep(0.02)
    Path(request.GET["folder"], "gone").touch()
    return JsonResponse({})


def _blocks(count: int) -> Iterator[bytes]:
    try:
        yield b""  # as a stream without a head begins
        for number in range(count):
            seen["blocks"] += 1
            yield b"%08d" % number * 8192
    finally:
        seen["closed"] += 1


def stream(request: HttpRequest, blocks: int) -> StreamingHttpResponse:
    return StreamingHttpResponse(_blocks(blocks), content_type="application/x-ndjson")


def broken_stream(request: HttpRequest) -> StreamingHttpResponse:
    def parts() -> Iterator[bytes]:
        yield b"first"
        raise ValueError("no second")

    return StreamingHttpResponse(parts())


def file(request: HttpRequest, size: int) -> FileResponse:
    content = tempfile.TemporaryFile()  # noqa: SIM115 - the response closes it
    content.truncate(size)
    response = FileResponse(content)
    response["Content-Length"] = str(size)
    return response


urlpatterns = [
    *urls.urlpatterns,
    path("api/headers", headers),
    path("api/seen", what_was_seen),
    path("api/hold", hold),
    path("api/wait-until-gone", wait_until_gone),
    path("api/stream/<int:blocks>", stream),
    path("api/broken-stream", broken_stream),
    path("file/<int:size>", file),
    path("api/nothing", lambda _: HttpResponse(status=204)),
    path("api/same", lambda _: HttpResponseNotModified(headers={"ETag": '"1"'})),
]

handler404 = urls.handler404
handler500 = urls.handler500

application = RequestGateway(DjangoApplication())
