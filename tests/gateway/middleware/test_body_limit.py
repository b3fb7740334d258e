"""Bodies: too large, without a length, cut off, never sent. On a real server, since it decides what arrives."""

import json
import time

import pytest
from django.test import Client

from tests.gateway.middleware.conftest import Server

LIMIT = 1_048_576
BATCH_LIMIT = 10_485_760


def post(*lines: bytes, body: bytes = b"", path: bytes = b"/api/echo") -> bytes:
    head = [b"POST " + path + b" HTTP/1.1", b"Host: x", b"Content-Type: application/json", *lines, b"", b""]
    return b"\r\n".join(head) + body


def chunks(*parts: bytes, end: bool = True) -> bytes:
    encoded = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    return encoded + (b"0\r\n\r\n" if end else b"")


def assert_refused(answer: tuple[int, bytes], status: int, code: str, **members: int) -> None:
    assert answer[0] == status
    problem = json.loads(answer[1])
    assert {"status": status, "code": code, **members}.items() <= problem.items()


def test_it_works(server: Server) -> None:
    status, body = server.send(post(b"Content-Length: 2", body=b"{}"))
    assert status == 200
    assert json.loads(body)["body"] == "{}"


@pytest.mark.parametrize("name", [b"Transfer-Encoding: chunked", b"transfer-encoding: Chunked"])
def test_chunked_body_is_not_lost(server: Server, name: bytes) -> None:
    status, body = server.send(post(name, body=chunks(b'{"a":', b" 1}")))
    assert status == 200
    assert json.loads(body)["body"] == '{"a": 1}'


def test_chunked_body_wins_over_a_length(server: Server) -> None:
    lines = (b"Content-Length: 1", b"Transfer-Encoding: chunked")
    assert json.loads(server.send(post(*lines, body=chunks(b"{}")))[1])["body"] == "{}"


def test_chunked_body_over_the_limit(server: Server) -> None:
    body = chunks(*[b"a" * 65_536] * 17)
    answer = server.send(post(b"Transfer-Encoding: chunked", body=body))
    assert_refused(answer, 413, "Request.BodyTooLarge", maxBodyBytes=LIMIT)


def test_endless_chunked_body_is_refused_at_the_limit(server: Server) -> None:
    body = chunks(b"a" * LIMIT, b"a", end=False)
    answer = server.send(post(b"Transfer-Encoding: chunked", body=body))
    assert_refused(answer, 413, "Request.BodyTooLarge", maxBodyBytes=LIMIT)


def test_chunked_body_cut_off_at_its_start_is_no_empty_body(server: Server) -> None:
    answer = server.send(post(b"Transfer-Encoding: chunked"), hang_up=True)
    assert_refused(answer, 400, "Request.Malformed")


def test_chunked_body_cut_off_between_its_chunks_is_not_taken_for_whole(server: Server) -> None:
    body = chunks(b"{}", end=False)
    assert_refused(server.send(post(b"Transfer-Encoding: chunked", body=body), hang_up=True), 400, "Request.Malformed")


def test_forms_must_have_a_length(server: Server) -> None:
    status, _ = server.send(post(b"Transfer-Encoding: chunked", path=b"/page", body=chunks(b"a=1")))
    assert status == 411


@pytest.mark.parametrize(("path", "limit"), [(b"/api/echo", LIMIT), (b"/api/ad/users/batch/update", BATCH_LIMIT)])
def test_length_decides_before_anything_is_sent(server: Server, path: bytes, limit: int) -> None:
    answer = server.send(post(b"Content-Length: %d" % (limit + 1), path=path))
    assert_refused(answer, 413, "Request.BodyTooLarge", maxBodyBytes=limit)


def test_exactly_the_limit_is_taken(server: Server) -> None:
    status, body = server.send(post(b"Content-Length: %d" % LIMIT, body=b"a" * LIMIT))
    assert (status, json.loads(body)["length"]) == (200, LIMIT)


def test_client_that_sends_on_still_gets_the_answer(server: Server) -> None:
    size = 20_000_000
    answer = server.send(post(b"Content-Length: %d" % size, body=b"a" * size))
    assert_refused(answer, 413, "Request.BodyTooLarge", maxBodyBytes=LIMIT)


@pytest.mark.parametrize("sent", [b"", b'{"a":'])
def test_body_cut_off(server: Server, sent: bytes) -> None:
    answer = server.send(post(b"Content-Length: 10", body=sent), hang_up=True)
    assert_refused(answer, 400, "Request.Malformed")


@pytest.mark.parametrize("line", [b"Content-Length: -1", b"Content-Length: x", b"Content-Length: 1, 2"])
def test_malformed_length(server: Server, line: bytes) -> None:
    assert server.send(post(line, body=b"{}")) == (400, b"")  # granian's own answer


@pytest.mark.parametrize("value", ["-1", "x", "1, 2", "+1", "١"])
def test_malformed_length_that_a_server_lets_through(client: Client, value: str) -> None:
    response = client.post("/api/echo", b"{}", "application/json", CONTENT_LENGTH=value)
    assert (response.status_code, response.json()["code"]) == (400, "Request.Invalid")


def test_body_that_never_comes_does_not_hold_the_worker(server: Server) -> None:
    started = time.monotonic()
    answer = server.send(post(b"Content-Length: 10", body=b"{"), wait=300)
    assert_refused(answer, 408, "Request.Timeout")
    assert time.monotonic() - started > 15
