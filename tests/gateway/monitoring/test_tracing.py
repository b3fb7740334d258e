"""Traces, as a collector receives them: OTLP over HTTP, sent by a web server and a worker of their own."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import copy_context
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from core.call import SupervisionLevel
from core.configuration import BadConfiguration
from core.tracing import require_usable
from core.tracing.span_export import Recorder
from lab.commands import PROJECT
from lab.directory import Directory
from lab.domain import Domain
from lab.gateway import LiveGateway
from lab.http import Http
from tests.support.cast import PASSWORD, make_connection, make_integration, make_person
from tests.support.database import gateway_at

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = f"00-{TRACE}-00f067aa0ba902b7-01"


class Collector:
    """Keeps the spans that it is sent, by their names."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.services: set[str] = set()
        kept = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.path == "/v1/traces"
                request = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"])))
                for of_process in request.resource_spans:
                    kept.services |= {
                        each.value.string_value for each in of_process.resource.attributes if each.key == "service.name"
                    }
                    for scope in of_process.scope_spans:
                        kept.spans += scope.spans
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def wait_for(self, is_wanted: Callable[[Span], bool]) -> Span:
        """The first span that is wanted; processes send theirs when they like."""
        deadline = time.monotonic() + 120
        while not (found := [span for span in self.spans if is_wanted(span)]):
            assert time.monotonic() < deadline, sorted({span.name for span in self.spans})
            time.sleep(0.05)
        return found[0]

    def below(self, parent: Span) -> set[str]:
        """The names of all that was done as a part of something."""
        children = [span for span in self.spans if span.parent_span_id == parent.span_id]
        return {span.name for span in children}.union(*(self.below(child) for child in children))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.close()


@pytest.fixture
def traced_gateway(
    transactional_db: None, redis_server: object, collector: Collector, tmp_path: Path
) -> Iterator[LiveGateway]:
    """One that sends its spans at once."""
    configuration = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "GATEWAY_LOG_FORMAT": "json",
        "GATEWAY_LOG_LEVEL": "INFO",
    }
    gateway = gateway_at(tmp_path, configuration, processes=1)
    gateway.web.start_and_wait()
    yield gateway
    gateway.stop()


def attributes(span: Span) -> dict[str, str | int]:
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


def is_named(name: str, *, trace: str | None = None) -> Callable[[Span], bool]:
    return lambda span: span.name == name and trace in (None, span.trace_id.hex())


def test_a_request_and_what_was_done_for_it(
    traced_gateway: LiveGateway, collector: Collector, domain: Domain, directory: Directory, organizational_unit: str
) -> None:
    """In the caller's trace, as is the rest of a stream; an approved change in that of the approval, though a worker
    does it.

    In one test, since the servers take most of the time.
    """
    ada = directory.add_user("Ada Lovelace", parent=organizational_unit)
    connection = make_connection(domain)
    key = make_integration(connection)
    careful = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    approver = make_person(may=["approvals.decide_change"])
    path, body = f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}}

    caller = {"X-API-Key": key.value, "traceparent": CALLER, "X-Request-Id": "traced"}
    assert traced_gateway.request("PATCH", path, body=body, headers=caller)[0] == 200
    request = collector.wait_for(is_named("PATCH users.update"))
    assert request.trace_id.hex() == TRACE
    assert request.parent_span_id.hex() == CALLER.split("-")[2]
    assert request.kind == Span.SPAN_KIND_SERVER
    assert attributes(request) == {
        "http.request.method": "PATCH",
        "http.response.status_code": 200,
        "gateway.operation": "users.update",
        "gateway.request_id": "traced",
    }
    assert collector.below(request) >= {
        *(
            "prepare users.update",
            "execute users.update",
            "record intents",
            "LDAP read",
            "LDAP write",
            "record outcomes",
        )
    }
    assert collector.services == {"directory-management-gateway"}

    listing = {"X-API-Key": key.value, "Accept": "application/x-ndjson", "traceparent": CALLER}
    reader = HTTPConnection(traced_gateway.base_url.removeprefix("http://"), timeout=120)
    reader.request("GET", "/api/ad/objects", headers=listing)
    assert reader.getresponse().read().endswith(b"}\n")
    reader.close()
    streamed = collector.wait_for(is_named("GET objects.search", trace=TRACE))
    assert collector.wait_for(is_named("stream objects.search")).parent_span_id == streamed.span_id

    hold = {"X-API-Key": careful.value}
    waiting = traced_gateway.request("PATCH", path, body={"replace": {"title": "Dame"}}, headers=hold)[2]
    wanted = waiting["changeRequest"]["id"]
    traced_gateway.worker.start_and_wait()
    console = Http(traced_gateway.base_url)
    signed_in = console.send("POST", "/rest/session", {"username": approver.username, "password": PASSWORD})
    session = signed_in.session
    digest = console.send("GET", f"/rest/change-requests/{wanted}", headers=session).body["digest"]
    other = CALLER.replace("4bf9", "5bf9")
    approve = f"/rest/change-requests/{wanted}/approve"
    assert console.send("POST", approve, {"digest": digest}, {**session, "traceparent": other}).status == 200
    task = collector.wait_for(is_named("task gateway.tasks.apply_change_request"))
    assert task.trace_id.hex() == other.split("-")[1]
    assert task.kind == Span.SPAN_KIND_CONSUMER
    collector.wait_for(is_named("execute users.update", trace=task.trace_id.hex()))
    assert {"apply an approved change", "LDAP write", "record outcomes"} <= collector.below(task)
    assert directory.read(ada, "title") == {"title": [b"Dame"]}

    sealed = collector.wait_for(is_named("seal records"))
    sweep = collector.wait_for(lambda span: span.span_id == sealed.parent_span_id)
    assert (sweep.name, sweep.parent_span_id) == ("task gateway.tasks.seal_log", b"")
    # Sweeps that had nothing to do were not told of: each that was has parts, or took its time.
    sweeps = [span for span in collector.spans if span.name == sweep.name]
    long = [span for span in sweeps if span.end_time_unix_nano - span.start_time_unix_nano >= 1e9]
    assert all(collector.below(span) or span in long for span in sweeps)

    broken = make_integration(make_connection(domain, url="ldaps://127.0.0.1:1"))
    asked = {"X-API-Key": broken.value}
    assert traced_gateway.request("GET", "/api/ad/users?q=ada", headers=asked)[0] == 503
    failed = collector.wait_for(is_named("GET users.search"))
    assert failed.status.code == Status.STATUS_CODE_ERROR
    assert attributes(failed)["error.type"] == "503"

    assert not any("health" in span.name for span in collector.spans)
    values = b"".join(span.SerializeToString() for span in collector.spans)
    assert not any(text in values for text in (b"Countess", b"Ada Lovelace", key.value.encode(), PASSWORD.encode()))
    traced_gateway.stop()  # so that all lines are written
    assert f'"trace_id": "{TRACE}"' in traced_gateway.web.output


def test_what_outlasts_a_request_belongs_to_it(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    recorder = Recorder()
    with recorder.span("request", "server", None, {}):
        begun_for_it = copy_context()
    begun_for_it.run(recorder.record_past_span, "LDAP read", 0.1, {})
    recorder.shut_down()
    request, read = collector.wait_for(is_named("request")), collector.wait_for(is_named("LDAP read"))
    assert read.parent_span_id == request.span_id


def test_without_a_collector_nothing_is_loaded() -> None:
    script = (
        "import gateway.application, gateway.tasks, sys\n"
        # Redis' client imports more of it where it is installed.
        "ours = ('opentelemetry.sdk.trace', 'opentelemetry.exporter')\n"
        "print([name for name in sys.modules if name.startswith(ours)])"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=PROJECT, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_PROTOCOL"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"}, "OTEL_EXPORTER_OTLP_ENDPOINT"),
    ],
)
def test_what_cannot_be_used_stops_the_start(variables: dict[str, str], named: str) -> None:
    given = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", **variables}
    with pytest.raises(BadConfiguration, match=named):
        require_usable(given)
    require_usable({**given, "OTEL_SDK_DISABLED": "true"})
