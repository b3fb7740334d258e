"""The request id of answers, problems and log lines; the access log; the measurements."""

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.test import Client

from gateway.middleware import request_id
from gateway.monitoring.logs import configure
from tests.gateway.middleware.urls import SECRET

UUID_FORM = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@pytest.mark.parametrize("given", ["a", "A.b_c-9", "x" * 128])
def test_good_id_is_kept(client: Client, given: str) -> None:
    response = client.get("/api/echo", headers={"X-Request-Id": given})
    assert response["X-Request-Id"] == given
    assert response.json()["requestId"] == given


@pytest.mark.parametrize("given", ["", "x" * 129, "a b", "a,b", "a/b", "é", "a\n"])
def test_bad_id_is_replaced(client: Client, given: str) -> None:
    response = client.get("/api/echo", headers={"X-Request-Id": given})
    assert UUID_FORM.fullmatch(response["X-Request-Id"])


def test_problem_names_the_id(client: Client) -> None:
    response = client.get("/api/none", headers={"X-Request-Id": "mine"})
    assert response.json()["requestId"] == "mine"
    assert response["X-Request-Id"] == "mine"


@contextmanager
def logging_as(form: str, *, level: str = "INFO") -> Iterator[None]:
    """Logging as the gateway sets it up, to the standard output of this moment."""
    root = logging.getLogger()
    handlers, former = root.handlers[:], root.level
    configure({"level": level, "format": form})
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(former)


def json_lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_one_line_per_request(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    with logging_as("json"):
        client.get("/api/echo?token=value", headers={"X-Request-Id": "mine"})
    (line,) = json_lines(capsys)
    assert line["ms"] >= 0
    expected = {"method": "GET", "path": "/api/echo", "status": 200, "client": "127.0.0.1", "request_id": "mine"}
    assert expected.items() <= line.items()
    assert "value" not in json.dumps(line)


def test_failure_is_logged_with_traceback_and_without_secrets(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    with logging_as("json"):
        client.get("/api/fail", headers={"X-Request-Id": "mine"})
    failure, access = json_lines(capsys)
    assert failure["request_id"] == access["request_id"] == "mine"
    assert "ValueError: internals" in failure["exception"]
    assert SECRET not in json.dumps(failure)
    assert "dgk_abcdefghijkl_<secret>" in failure["exception"]


def test_path_cannot_forge_a_line(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    with logging_as("text"):
        client.get("/api/none%0a2026-01-01T00:00:00Z%20info%20request%20status=200")
    assert len(capsys.readouterr().out.splitlines()) == 1


@pytest.mark.django_db
def test_requests_are_measured(client: Client) -> None:
    client.get("/api/ad/users")
    client.generic("INVENTED", "/api/none")
    text = client.get("/metrics", headers={"Host": "192.0.2.1:8000"}).content.decode()  # Prometheus asks by address
    assert 'gateway_requests_total{method="GET",operation="tests.directorysearch",status="200"}' in text
    assert 'gateway_requests_total{method="other",operation="none",status="404"}' in text
    assert "INVENTED" not in text
    assert "gateway_process_resident_bytes{" in text


def test_requests_that_did_not_fit_into_the_queue_are_told_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    queue = request_id._answered_on_loop
    monkeypatch.setattr(queue, "_start", lambda: None)
    monkeypatch.setattr(queue, "capacity", 1)
    monkeypatch.setattr(request_id, "is_on_loop", lambda: True)
    for _ in range(3):
        request_id.end_request(
            0.0, method="GET", path="/", status=200, operation="x", client=None, id="one", caller=None
        )
    assert queue.flush()
    (told,) = (str(record.msg) for record in caplog.records if "neither counted" in str(record.msg))
    assert "'requests': 2" in told
    assert queue.refused == 0, "it is told once"
