"""A server that does one thing wrong: misbehaving.py HOW PORT.

Those that go wrong later serve a hundred connections first.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys

SERVED = 100
ANSWER = "HTTP/1.1 {}\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi"


def serve(how: str, port: int) -> None:
    """Serve for ever, or until it goes wrong."""
    if how == "dies":
        print("out of luck")
        sys.exit(3)
    listener = socket.create_server(("127.0.0.1", port), backlog=100)
    print("here", flush=True)
    kept = []
    n_served = 0
    while True:
        connection, _ = listener.accept()
        n_served += 1
        later = n_served > SERVED
        if how == "hangs" or (how == "hangs later" and later):
            kept.append(connection)
            continue
        if how == "dies later" and later:
            os._exit(3)
        with connection, contextlib.suppress(OSError):
            if how == "closes":
                continue
            connection.recv(1000)
            status = "500 No" if how == "errs" else "200 OK"
            text = "hello\r\n\r\n" if how == "babbles" else ANSWER.format(status)
            connection.sendall(text.encode())


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
