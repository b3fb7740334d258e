"""Clients that send or read slowly hold nothing that others need: no thread, no memory without end, not `/health`."""

import json
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from lab.redis import RedisServer
from tests.gateway.middleware.conftest import Server, read_answer
from tests.gateway.server.conftest import THREADS, serving_slow_clients

HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
READ = b"GET /api/echo HTTP/1.1\r\nHost: x\r\n\r\n"
WRITE = b"POST /api/echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


def begun_body(length: int = 100, path: bytes = b"/api/echo") -> bytes:
    lines = (b"POST " + path + b" HTTP/1.1", b"Host: x", b"Content-Type: application/json", b"X-Request-Id: slow")
    return b"\r\n".join((*lines, b"Content-Length: %d" % length, b"", b"{"))


def in_chunks(begun: bytes) -> bytes:
    """The same with a first chunk and no length."""
    return begun.replace(b"Content-Length: 100", b"Transfer-Encoding: chunked").replace(b"\r\n{", b"\r\n1\r\n{\r\n")


@contextmanager
def holding(server: Server, count: int, sent: bytes) -> Iterator[list[socket.socket]]:
    """So many connections that sent this and then nothing."""
    with ExitStack() as stack:
        connections = [stack.enter_context(server.connect()) for _ in range(count)]
        for connection in connections:
            connection.sendall(sent)
        yield connections


def expect_others_served(server: Server) -> None:
    for request in (HEALTH, READ, WRITE):
        assert server.send(request)[0] == 200


@pytest.mark.parametrize(
    ("count", "sent"),
    [
        (4 * THREADS, begun_body()),
        (4 * THREADS, in_chunks(begun_body())),
        (300, b"GET /health HTTP/1.1\r\nHost: x\r\nX-Slow: "),
        (300, b"G"),
        (300, b""),
        (300, READ),  # answered, and then kept open without a further request
        (4 * THREADS, b"GET /file/30000000 HTTP/1.1\r\nHost: x\r\n\r\n"),
        (4 * THREADS, b"GET /api/stream/1000 HTTP/1.1\r\nHost: x\r\n\r\n"),
    ],
    ids=["body", "chunked body", "headers", "request line", "nothing", "idle", "reading a file", "reading a stream"],
)
def test_others_are_served_meanwhile(server: Server, count: int, sent: bytes) -> None:
    """They do not wait until the time of a slow client is over: 30 s for headers, and 120 here for bodies."""
    for _ in range(3):  # a machine may be so busy that it is over before they are served
        with holding(server, count, sent) as slow:
            expect_others_served(server)
            if {connection.getsockname()[1] for connection in slow} <= clients_of(server):
                return
    pytest.fail("the slow ones were given up first")


@pytest.fixture(scope="module")
def hasty_server(redis_server: RedisServer) -> Iterator[Server]:
    """A server that gives bodies and readers two seconds, and addresses three requests."""
    environment = {
        "RateLimiting__Enabled": "true",
        "RateLimiting__Global": '{"Requests": 3, "WindowSeconds": 600}',
        "RequestLimits__BodySeconds": "2",
        "Web__SendSeconds": "2",
    }
    with serving_slow_clients(**environment) as server:
        yield server


def from_address(address: bytes, sent: bytes) -> bytes:
    return sent.replace(b"Host: x", b"Host: x\r\nX-Forwarded-For: " + address)


@pytest.mark.parametrize("chunked", [False, True])
def test_body_that_stops_is_refused_with_a_problem(hasty_server: Server, chunked: bool) -> None:
    sent = from_address(b"192.0.2.%d" % chunked, begun_body())
    if chunked:
        sent = in_chunks(sent)
    with hasty_server.connect() as connection:
        connection.sendall(sent)
        head, body = read_answer(connection)
        assert connection.recv(1) == b""  # what is still to come would be taken for a request
    assert head.startswith(b"HTTP/1.1 408 ")
    assert b"content-type: application/problem+json" in head.lower()
    problem = json.loads(body)
    assert (problem["code"], problem["status"], problem["requestId"]) == ("Request.Timeout", 408, "slow")


def test_slow_requests_count_against_the_rate_limit(hasty_server: Server) -> None:
    with ExitStack() as stack:
        connections = [stack.enter_context(hasty_server.connect()) for _ in range(4)]
        for connection in connections:
            connection.sendall(from_address(b"192.0.2.77", begun_body()))
        statuses = [int(read_answer(connection)[0].split()[1]) for connection in connections]
    assert sorted(statuses) == [408, 408, 408, 429]


def test_body_that_keeps_coming_has_time_by_its_size(hasty_server: Server) -> None:
    """With 256 KiB at a time the deadline runs away from it: a large body from far away arrives."""
    part = b"a" * 262_144
    with hasty_server.connect() as connection:
        sent = from_address(b"192.0.2.78", begun_body(8 * len(part) + 1, b"/api/ad/users/batch/update"))
        connection.sendall(sent + part)  # at once, or the two seconds might be over in between
        for _ in range(7):
            time.sleep(0.5)
            connection.sendall(part)
        assert read_answer(connection)[0].startswith(b"HTTP/1.1 200 ")


def test_when_memory_for_bodies_is_full_the_one_that_takes_longest_gives_way() -> None:
    """16 times the largest body is kept: 1.6 MB here, which 20 clients with 100 kB each fill."""
    environment = {"RequestLimits__MaxBatchBodyBytes": "100000", "RequestLimits__BodySeconds": "60"}
    with serving_slow_clients(**environment) as server, ExitStack() as stack:
        connections = [stack.enter_context(server.connect()) for _ in range(20)]
        for connection in connections:
            connection.sendall(begun_body(200_000) + b"a" * 100_000)
            wait_until_taken(server, connection)
        for connection in connections[:4]:
            assert read_answer(connection)[0].startswith(b"HTTP/1.1 408 ")
        expect_others_served(server)
        connections[-1].sendall(b"a" * 99_999)
        assert read_answer(connections[-1])[0].startswith(b"HTTP/1.1 200 ")


def hold(folder: Path) -> bytes:
    return b"GET /api/hold?folder=" + str(folder).encode() + b" HTTP/1.1\r\nHost: x\r\n\r\n"


@contextmanager
def all_threads_busy(server: Server, folder: Path) -> Iterator[None]:
    """Until the end of the block, when what kept them is answered."""
    with holding(server, THREADS, hold(folder)) as busy:
        wait_until(lambda: len(list(folder.iterdir())) == THREADS)
        yield
        Path(folder, "go").touch()
        for connection in busy:
            assert read_answer(connection)[0].startswith(b"HTTP/1.1 200 ")


def test_health_answers_while_all_threads_are_busy(server: Server, tmp_path: Path) -> None:
    with all_threads_busy(server, tmp_path), holding(server, 3 * THREADS, hold(tmp_path)):
        assert server.send(HEALTH)[0] == 200


def test_who_goes_away_before_their_turn_takes_none(server: Server, tmp_path: Path) -> None:
    with all_threads_busy(server, tmp_path):
        with holding(server, 5 * THREADS, hold(tmp_path)) as waiting:
            ports = {connection.getsockname()[1] for connection in waiting}
            wait_until_taken(server, *waiting)
        wait_until(lambda: not ports & clients_of(server))
        time.sleep(0.5)  # from the connection's end to the request's
        for _ in range(10):  # and the event loop, on which requests end, has gone round since
            assert server.send(HEALTH)[0] == 200
    assert server.send(READ)[0] == 200
    assert len(list(tmp_path.iterdir())) == THREADS + 1  # and `go`


def test_who_is_answered_is_told_that_the_client_has_gone(server: Server, tmp_path: Path) -> None:
    sent = b"GET /api/wait-until-gone?folder=" + str(tmp_path).encode() + b" HTTP/1.1\r\nHost: x\r\n\r\n"
    with holding(server, 1, sent):
        wait_until(Path(tmp_path, "begun").exists)
    wait_until(Path(tmp_path, "gone").exists)


def test_one_key_cannot_have_all_threads(redis_server: RedisServer, tmp_path: Path) -> None:
    def with_key(sent: bytes, key: bytes) -> bytes:
        return sent.replace(b"Host: x", b"Host: x\r\nX-API-Key: " + key)

    with serving_slow_clients(1, Web__ThreadsPerCredential="0") as server:
        for spelling in (b"first", b"  first ", b"\tfirst"):
            with holding(server, THREADS, with_key(hold(tmp_path), spelling)) as busy:
                wait_until_taken(server, *busy)
                assert server.send(with_key(READ, b"second"))[0] == 200
                wait_until(lambda: len(list(tmp_path.iterdir())) >= THREADS // 2)
                assert len(list(tmp_path.iterdir())) == THREADS // 2
                Path(tmp_path, "go").touch()
                for connection in busy:
                    assert read_answer(connection)[0].startswith(b"HTTP/1.1 200 ")
            for file in tmp_path.iterdir():
                file.unlink()


def clients_of(server: Server) -> set[int]:
    """The ports of the clients whose connections the server has not closed (proc_pid_net(5))."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    ports = [(int(row[1].partition(":")[2], 16), int(row[2].partition(":")[2], 16), row[3]) for row in rows]
    return {theirs for ours, theirs, state in ports if ours == server.port and state in ("01", "08")}


def wait_until_taken(server: Server, *connections: socket.socket) -> None:
    """The server has read what was sent on these connections: nothing of it waits in the kernel (proc_pid_net(5))."""
    ports = {connection.getsockname()[1] for connection in connections}

    def are_taken() -> bool:
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            row = line.split()
            ours, theirs = (int(address.partition(":")[2], 16) for address in row[1:3])
            sending, received = (int(queue, 16) for queue in row[4].split(":"))
            if ours == server.port and theirs in ports and received:
                return False
            if theirs == server.port and ours in ports and sending:
                return False
        return True

    wait_until(are_taken)


def seen(server: Server) -> dict[str, int]:
    counts: dict[str, int] = json.loads(server.send(b"GET /api/seen HTTP/1.1\r\nHost: x\r\n\r\n")[1])
    return counts


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_stream_is_made_as_it_is_read(server: Server) -> None:
    """650 MB for a reader who takes nothing: what is made is what the kernel and the server keep for it."""
    before = seen(server)
    with holding(server, 1, b"GET /api/stream/10000 HTTP/1.1\r\nHost: x\r\n\r\n"):
        wait_until(lambda: seen(server)["blocks"] > before["blocks"])
        time.sleep(1)
        assert seen(server)["blocks"] - before["blocks"] < 500
        assert seen(server)["closed"] == before["closed"]
    wait_until(lambda: seen(server)["closed"] == before["closed"] + 1)  # and it ends with its reader


@pytest.mark.parametrize("path", [b"/api/stream/10000", b"/file/50000000"])
def test_client_that_never_reads_is_disconnected(hasty_server: Server, path: bytes) -> None:
    asked = from_address(b"192.0.2.79", b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    with holding(hasty_server, 1, asked) as (connection,):
        port = connection.getsockname()[1]
        wait_until(lambda: port not in clients_of(hasty_server))
        assert connection.recv(12) == b"HTTP/1.1 200"  # it was being answered


def test_memory_does_not_grow_with_a_stream(server: Server) -> None:
    before = resident(server)
    with server.connect() as connection:
        connection.sendall(b"GET /api/stream/8000 HTTP/1.1\r\nHost: x\r\n\r\n")
        received = 0
        while received < 8000 * 65_536:
            received += len(connection.recv(1 << 20))
    assert resident(server) - before < 60


def resident(server: Server) -> float:
    """Megabytes of the process that answers."""
    pid = server.process.pid
    answering = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[-1]
    return int(Path(f"/proc/{answering}/statm").read_text().split()[1]) * 4096 / 1e6


def test_requests_that_have_arrived_are_answered_before_the_end(tmp_path: Path) -> None:
    with serving_slow_clients() as server, holding(server, 2 * THREADS, hold(tmp_path)) as waiting:
        wait_until(lambda: len(list(tmp_path.iterdir())) == THREADS)
        wait_until_taken(server, *waiting)
        server.process.terminate()
        Path(tmp_path, "go").touch()
        for connection in waiting:
            assert read_answer(connection)[0].startswith(b"HTTP/1.1 200 ")


def test_a_reload_waits_for_answers_and_holds_up_nobody(tmp_path: Path) -> None:
    """Every process is a new one while the old ones still answer what they had begun."""

    def busy() -> set[str]:
        return {file.name.partition("-")[0] for file in tmp_path.iterdir() if file.name != "go"}

    with serving_slow_clients(2) as server, ExitStack() as held:
        before, waiting = children(server), []
        while busy() < before:  # the kernel chooses which of them gets a connection
            waiting += held.enter_context(holding(server, 1, hold(tmp_path)))
            time.sleep(0.1)
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: len(children(server) - before) == len(before))
        assert server.send(HEALTH)[0] == 200
        assert before <= children(server), "an old process that answers has been killed"
        Path(tmp_path, "go").touch()
        for connection in waiting:
            assert read_answer(connection)[0].startswith(b"HTTP/1.1 200 ")
        wait_until(lambda: not children(server) & before)


def children(server: Server) -> set[str]:
    """The processes that answer, old and new."""
    pid = server.process.pid
    return set(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
