"""What only the kernel can do about a connection: give it up when its client takes nothing."""

import os
import socket


def limit_sending(seconds: float) -> None:
    """Let the kernel close connections made from now on whose client takes nothing of what it is sent for so long.

    An application can neither see nor end the connection of an answer that it has given; a client who never reads would
    keep it for ever. A connection has the TCP_USER_TIMEOUT (tcp(7)) of the socket that listened for it.
    """
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            copy = os.dup(int(descriptor))
        except OSError:  # the one by which the directory was read
            continue
        try:
            found = socket.socket(fileno=copy)
        except OSError:  # something else than a socket
            os.close(copy)
            continue
        with found:
            is_internet = found.family in (socket.AF_INET, socket.AF_INET6)
            if is_internet and found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                found.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(seconds * 1000))
