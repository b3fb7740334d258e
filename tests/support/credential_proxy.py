"""A proxy that adds a credential to each request: for programs that test a server and cannot be told of any."""

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlsplit

_OF_A_CONNECTION = frozenset({"connection", "transfer-encoding", "content-length", "keep-alive"})


@contextmanager
def credential_proxy(target: str, authorizations: dict[str, str]) -> Iterator[str]:
    """The URL at which everything leads to `target`, with `authorizations["Authorization"]` once it is there.

    The host asked for is passed on, so that whatever a test makes of it arrives.
    """
    address = urlsplit(target).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            connection = http.client.HTTPConnection(address, timeout=60)
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in {**dict(self.headers.items()), **authorizations}.items():
                if name.lower() not in _OF_A_CONNECTION:
                    connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            content = answer.read()
            connection.close()
            self.send_response_only(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in _OF_A_CONNECTION:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = do_PUT = forward  # noqa: N815 - as http.server names them

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: what went wrong, the answer says."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://localhost:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
