"""A mail server that keeps what it gets, and refuses on demand."""

import socketserver
import threading
from email import message_from_bytes, policy
from email.message import EmailMessage
from types import TracebackType


class MailServer:
    """SMTP on a loopback address. Recipients in `refused` get a temporary refusal."""

    def __init__(self, address: str = "127.0.0.1") -> None:
        self.messages: list[EmailMessage] = []
        self.refused: set[str] = set()
        mail_server = self

        class Session(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                mail_server._converse(self)

        socketserver.ThreadingTCPServer.allow_reuse_address = True
        self._server = socketserver.ThreadingTCPServer((address, 0), Session)
        self._server.daemon_threads = True
        self.host, self.port = self._server.server_address[:2]

    def __enter__(self) -> "MailServer":
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _converse(self, session: socketserver.StreamRequestHandler) -> None:
        """Just enough of RFC 5321 for a client that follows it."""

        def answer(line: str) -> None:
            session.wfile.write(f"{line}\r\n".encode())

        answer("220 mail.example.test")
        while line := session.rfile.readline():
            action, _, rest = line.decode().strip().partition(" ")
            if action.upper() == "QUIT":
                answer("221 Bye")
                return
            if action.upper() == "DATA":
                answer("354 Go on")
                content = bytearray()
                while (part := session.rfile.readline()) != b".\r\n":
                    content += part.removeprefix(b".")
                self.messages.append(message_from_bytes(bytes(content), policy=policy.default))
            if action.upper() == "RCPT" and any(address in rest for address in self.refused):
                answer("450 Come back later")
            else:
                answer("250 Fine")
