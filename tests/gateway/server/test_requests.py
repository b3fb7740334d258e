"""What of a request reaches Django, and what of an answer the client: names, bytes, lengths, the order of many."""

import json

import pytest

from tests.gateway.middleware.conftest import Server, read_answer


def headers(server: Server, *lines: bytes) -> dict[str, str]:
    request = b"\r\n".join((b"GET /api/headers HTTP/1.1", b"Host: x", *lines, b"", b""))
    found: dict[str, str] = json.loads(server.send(request)[1])
    return found


@pytest.mark.parametrize(
    "name", [b"X_Forwarded_For", b"X_API_Key", b"X-API_Key", b"X_Client_Id", b"X_Request_Id", b"If_Match", b"Any_Thing"]
)
def test_header_with_an_underscore_does_nothing(server: Server, name: bytes) -> None:
    assert headers(server, name + b": mine") == {"HTTP_HOST": "x"}
    true_name = name.replace(b"_", b"-")
    variable = "HTTP_" + name.decode().upper().replace("-", "_")
    for lines in ((true_name + b": theirs", name + b": mine"), (name + b": mine", true_name + b": theirs")):
        assert headers(server, *lines) == {"HTTP_HOST": "x", variable: "theirs"}


def test_forwarded_address_cannot_be_replaced_by_an_underscore(server: Server) -> None:
    lines = (b"X-Forwarded-For: 203.0.113.9", b"X_Forwarded_For: 198.51.100.1", b"X_Request_Id: mine")
    status, body = server.send(b"\r\n".join((b"GET /api/echo HTTP/1.1", b"Host: x", *lines, b"", b"")))
    assert status == 200
    assert json.loads(body)["address"] == "203.0.113.9"
    assert json.loads(body)["requestId"] != "mine"


def test_length_cannot_be_given_with_an_underscore(server: Server) -> None:
    status, body = server.send(b"POST /api/echo HTTP/1.1\r\nHost: x\r\nContent_Length: 2\r\nContent_Type: a/b\r\n\r\n")
    assert (status, json.loads(body)["length"]) == (200, 0)


def test_bytes_beyond_ascii_arrive(server: Server) -> None:
    found = headers(server, b"X-Change-Reason: " + "Straße nach 東京".encode())
    assert found["HTTP_X_CHANGE_REASON"].encode("latin-1").decode() == "Straße nach 東京"


def test_lines_of_one_header_are_joined(server: Server) -> None:
    found = headers(server, b"X-A: 1", b"Cookie: a=1", b"X-A: 2", b"Cookie: b=2")
    assert (found["HTTP_X_A"], found["HTTP_COOKIE"]) == ("1,2", "a=1; b=2")


def test_requests_sent_at_once_are_answered_in_order(server: Server) -> None:
    """Several requests in one go (RFC 9112 9.3.2), bodies among them, on one connection that is kept."""
    sent = b""
    for number in range(20):
        body = b'"%d"' % number
        sent += b"POST /api/echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        sent += b"POST /api/echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        sent += b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        sent += b"GET /api/echo HTTP/1.1\r\nHost: x\r\n\r\n"
    with server.connect() as connection:
        connection.sendall(sent)
        answers = [json.loads(read_answer(connection)[1])["body"] for _ in range(60)]
    assert answers == [text for number in range(20) for text in (f'"{number}"', f'"{number}"', "")]


def test_largest_batch_arrives(server: Server) -> None:
    size = 10_485_760
    head = b"POST /api/ad/users/batch/update HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size
    status, body = server.send(head + b"a" * size)
    assert (status, json.loads(body)["length"]) == (200, size)


@pytest.mark.parametrize(("path", "status"), [(b"/api/nothing", 204), (b"/api/same", 304)])
@pytest.mark.parametrize("method", [b"GET", b"HEAD"])
def test_answers_without_a_body_have_none(server: Server, method: bytes, path: bytes, status: int) -> None:
    with server.connect() as connection:
        for _ in range(2):  # the second would begin with what is left of the first
            connection.sendall(method + b" " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = connection.recv(65_536)
            assert answer.startswith(b"HTTP/1.1 %d " % status)
            assert answer.endswith(b"\r\n\r\n")
            assert b"transfer-encoding" not in answer.lower()


@pytest.mark.parametrize(
    ("path", "length"), [(b"/health", 16), (b"/file/50", 50), (b"/file/1000000", 1_000_000), (b"/api/stream/9", None)]
)
def test_head_has_the_headers_alone(server: Server, path: bytes, length: int | None) -> None:
    with server.connect() as connection:
        for _ in range(2):
            connection.sendall(b"HEAD " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = connection.recv(65_536).lower()
            assert answer.startswith(b"http/1.1 200 ")
            assert answer.endswith(b"\r\n\r\n")
            assert (b"content-length: %d\r\n" % length in answer) if length else b"content-length" not in answer


@pytest.mark.parametrize("size", [1, 65_536, 65_537, 5_000_000])
def test_file_arrives_whole(server: Server, size: int) -> None:
    assert server.send(b"GET /file/%d HTTP/1.1\r\nHost: x\r\n\r\n" % size) == (200, bytes(size))


def test_stream_arrives_whole(server: Server) -> None:
    with server.connect() as connection:
        connection.sendall(b"GET /api/stream/300 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = b""
        while part := connection.recv(1 << 20):
            answer += part
    content = b"".join(part for part in answer.partition(b"\r\n\r\n")[2].split(b"\r\n") if len(part) == 65_536)
    assert content == b"".join(b"%08d" % number * 8192 for number in range(300))
    assert answer.endswith(b"\r\n0\r\n\r\n")


def test_stream_that_breaks_off_leaves_the_server_whole(server: Server) -> None:
    with server.connect() as connection:
        connection.sendall(b"GET /api/broken-stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = b""
        while part := connection.recv(65_536):
            answer += part
    assert b"first" in answer
    assert server.send(b"GET /api/echo HTTP/1.1\r\nHost: x\r\n\r\n")[0] == 200
