"""A TCP proxy that simulates faults between the gateway and a server."""

import contextlib
import enum
import socket
import threading
from collections.abc import Callable


class Fault(enum.Enum):
    """What the proxy does with traffic."""

    NONE = "forward everything"
    REFUSE = "close every connection and accept none"
    STALL = "keep connections open and forward nothing"
    STALL_LATER = "forward some more octets of answers and then nothing"
    SWALLOW_ANSWERS = "forward requests and drop what the server answers"
    LOSE_ANSWER = "forward requests and close the connection when the server answers"


class FaultyProxy:
    """Listens on a free port of 127.0.0.1 (in the domain controller's certificate) and forwards to a target."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._fault = Fault.NONE
        self._octets_left = 0
        self._changed = threading.Condition()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._held: set[tuple[socket.socket, socket.socket]] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.accepted = 0
        self._broken = 0
        self._holding = 0
        self._swallowed = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """The URL of a domain controller behind the proxy."""
        return f"ldaps://127.0.0.1:{self.port}"

    @property
    def open_connections(self) -> int:
        """The number of open connections."""
        with self._changed:
            return len(self._pairs)

    def cut(self) -> None:
        """Close every connection; new ones are closed as soon as they are accepted, until `restore`."""
        self._set(Fault.REFUSE)
        self.drop_connections()

    def drop_connections(self) -> None:
        """Close the current connections and go on as before."""
        with self._changed:
            pairs = list(self._pairs)
        for pair in pairs:
            self._close(pair)

    def stall(self) -> None:
        """Hold everything back, in both directions, until `restore`."""
        self._set(Fault.STALL)

    def when_held(self, step: Callable[[], None]) -> None:
        """Run a step, such as `cut`, as soon as data is being held back, which then never arrives."""
        threading.Thread(target=self._when, args=(lambda: self._holding, step), daemon=True).start()

    def when_swallowed(self, step: Callable[[], None]) -> None:
        """Run a step as soon as another answer was dropped, for which a client now waits in vain."""
        before = self._swallowed
        threading.Thread(target=self._when, args=(lambda: self._swallowed > before, step), daemon=True).start()

    def stall_present(self) -> None:
        """Hold back the data of the current connections until `restore`; new ones are served."""
        with self._changed:
            self._held = set(self._pairs)

    def stall_after(self, octets: int) -> None:
        """Let this many bytes of answers through, then hold everything back, in the middle of a message."""
        self._octets_left = octets
        self._set(Fault.STALL_LATER)

    def swallow_answers(self) -> None:
        """Let requests through and drop answers: the client waits although the server has done its work."""
        self._set(Fault.SWALLOW_ANSWERS)

    def lose_answer(self) -> None:
        """Let requests through and close the connection when the server answers: the client sees it go down."""
        self._set(Fault.LOSE_ANSWER)

    @property
    def broken(self) -> int:
        """How many connections were refused, or closed instead of answered, which clients notice."""
        with self._changed:
            return self._broken

    def restore_after(self, broken: int) -> None:
        """End the current fault after this many more connections are `broken`."""
        fault = self._fault
        threading.Thread(target=self._restore_after, args=(self.broken + broken, fault), daemon=True).start()

    def restore(self) -> None:
        """Forward everything again."""
        self._held = set()
        self._set(Fault.NONE)

    def close(self) -> None:
        """End the proxy and its connections."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the accepting thread
        self._listener.close()
        self.cut()

    def _when(self, condition: Callable[[], object], step: Callable[[], None]) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, timeout=120)
        step()

    def _restore_after(self, broken: int, fault: Fault) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._broken >= broken or self._fault is not fault)
            if self._fault is fault:
                self._fault = Fault.NONE
                self._changed.notify_all()

    def _note_broken(self) -> None:
        with self._changed:
            self._broken += 1
            self._changed.notify_all()

    def _set(self, fault: Fault) -> None:
        with self._changed:
            self._fault = fault
            self._changed.notify_all()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            if self._fault is Fault.REFUSE:
                client.close()
                self._note_broken()
                continue
            try:
                server = socket.create_connection(self._target, timeout=60)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            pair = (client, server)
            with self._changed:
                self._pairs.add(pair)
            threading.Thread(target=self._forward, args=(pair, client, server), daemon=True).start()
            threading.Thread(target=self._forward, args=(pair, server, client), daemon=True).start()

    def _forward(self, pair: tuple[socket.socket, socket.socket], source: socket.socket, sink: socket.socket) -> None:
        answers = source is pair[1]
        try:
            while data := source.recv(65536):
                with self._changed:
                    if self._is_held(pair):
                        self._holding += 1
                        self._changed.notify_all()
                        self._changed.wait_for(lambda: not self._is_held(pair))
                        self._holding -= 1
                    # A connection that is being closed must forward nothing more: its client has seen it end.
                    fault = self._fault if pair in self._pairs else Fault.REFUSE
                if fault is Fault.REFUSE:
                    break
                if answers and fault is Fault.LOSE_ANSWER:
                    self._close(pair)
                    self._note_broken()
                    break
                if answers and fault is Fault.SWALLOW_ANSWERS:
                    with self._changed:
                        self._swallowed += 1
                        self._changed.notify_all()
                    continue
                if answers and fault is Fault.STALL_LATER:
                    data = self._send_some(sink, data)
                sink.sendall(data)
        except OSError:
            pass  # one side has closed the connection, and so the other one is closed, too
        finally:
            self._close(pair)

    def _is_held(self, pair: tuple[socket.socket, socket.socket]) -> bool:
        return self._fault is Fault.STALL or pair in self._held

    def _send_some(self, sink: socket.socket, data: bytes) -> bytes:
        """Forward the bytes that may still pass; return the rest once everything may pass."""
        sink.sendall(data[: self._octets_left])
        rest = data[self._octets_left :]
        self._octets_left -= len(data) - len(rest)
        with self._changed:
            if rest and self._fault is Fault.STALL_LATER:
                self._fault = Fault.STALL
            self._changed.wait_for(lambda: not rest or self._fault is not Fault.STALL)
            return b"" if self._fault is Fault.REFUSE else rest

    def _close(self, pair: tuple[socket.socket, socket.socket]) -> None:
        with self._changed:
            self._pairs.discard(pair)
            self._held.discard(pair)
            self._changed.notify_all()
        for end in pair:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
