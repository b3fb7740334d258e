"""What a thread does for a request belongs to it: its lines of the log say the request's id."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.test import RequestFactory

from active_directory import Client, ServerSettings, run_in_background
from core.call import RecordStream, StreamFormat
from core.operation import find_operation
from directory.queries import domain_controllers
from directory.queries.domain_controllers import ask_each_server
from gateway.monitoring.logs import request_id
from gateway.surfaces.rendering import stream_response


@pytest.fixture(autouse=True)
def of_this_request() -> Iterator[None]:
    token = request_id.set("of-this-request")
    yield
    request_id.reset(token)


def test_what_is_begun_belongs_to_the_request() -> None:
    assert run_in_background(request_id.get, "part")() == "of-this-request"


def test_what_each_server_is_asked_belongs_to_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domain_controllers, "ANSWER_SECONDS", 120.0)
    client = Client(ServerSettings(("ldaps://dc1.test", "ldaps://dc2.test"), "DC=corp", "CN=x", "x"))
    assert [answer.answer for answer in ask_each_server(client, lambda _: request_id.get())] == ["of-this-request"] * 2


def test_a_stream_belongs_to_the_request_whichever_threads_make_it() -> None:
    def parts() -> Iterator[list[dict[str, Any]]]:
        yield [{"id": request_id.get()}]
        token = request_id.set("of-a-part")  # as a span is
        yield [{"id": request_id.get()}]
        request_id.reset(token)
        yield [{"id": request_id.get()}]

    stream = RecordStream(parts=parts(), form=StreamFormat.NDJSON)
    response: Any = stream_response(find_operation("users.search"), RequestFactory().get("/"), stream)
    blocks = iter(response.streaming_content)

    def make() -> tuple[bytes, str | None]:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(lambda: (next(blocks, b""), request_id.get(None))).result()

    made = [make() for _ in range(5)]
    ids = ("of-this-request", "of-a-part", "of-this-request")
    assert [block for block, _ in made] == [b"", *(b'{"id":"%s"}\n' % each.encode() for each in ids), b""]
    assert len({left for _, left in made}) == 1  # nothing of it stays in a thread
