"""Store the keys that clients will request: PREFIX0, PREFIX1, ... with values of equal size.

    set ... ──► STORED            memcached's text protocol (doc/protocol.txt)
    SET ... ──► +OK               Redis serialization protocol, version 2

It runs as a separate program on the clients' side of a testbed, without the rest of the library:
preloading.py PROTOCOL ADDRESS PORT PREFIX KEYS BYTES.
"""

from __future__ import annotations

import socket
import sys

_AT_ONCE = 100
_ANSWER_SECONDS_MAX = 10.0
_ANSWERS = {"memcached": b"STORED", "resp": b"+OK"}
_SHOWN = 80


def set_request(protocol: str, key: str, value: bytes) -> bytes:
    r"""Return the request that stores *value* under *key*.

    >>> set_request("memcached", "k0", b"xx")
    b'set k0 0 0 2\r\nxx\r\n'
    >>> set_request("resp", "k0", b"xx")
    b'*3\r\n$3\r\nSET\r\n$2\r\nk0\r\n$2\r\nxx\r\n'
    """
    name = key.encode()
    if protocol == "memcached":
        return b"set %b 0 0 %d\r\n%b\r\n" % (name, len(value), value)
    return b"*3\r\n$3\r\nSET\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(name), name, len(value), value)


def preload(
    connection: socket.socket, protocol: str, prefix: str, n_keys: int, n_bytes: int
) -> None:
    """Store all keys over *connection*.

    Raises
    ------
    ValueError
        If the server does not store one, with its reply.
    """
    value = b"x" * n_bytes
    with connection.makefile("rb") as answers:
        for first in range(0, n_keys, _AT_ONCE):
            keys = [f"{prefix}{i}" for i in range(first, min(first + _AT_ONCE, n_keys))]
            connection.sendall(b"".join(set_request(protocol, key, value) for key in keys))
            for key in keys:
                said = answers.readline().rstrip(b"\r\n")
                if said != _ANSWERS[protocol]:
                    text = said.decode(errors="replace")[:_SHOWN] or "nothing"
                    raise ValueError(f'a SET of {key} was not stored, the reply was "{text}"')


def main(arguments: list[str]) -> None:
    """Store the keys of the command line; print "done", or why they were not stored."""
    protocol, address, port, prefix, n_keys, n_bytes = arguments
    try:
        with socket.create_connection((address, int(port)), _ANSWER_SECONDS_MAX) as connection:
            preload(connection, protocol, prefix, int(n_keys), int(n_bytes))
    except (OSError, ValueError) as error:
        print(error)
        return
    print("done")


if __name__ == "__main__":
    main(sys.argv[1:])
