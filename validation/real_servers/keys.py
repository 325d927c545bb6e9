"""Store a value under each key that clients will ask for: a program of its own, for a namespace.

    python keys.py ADDRESS PORT PROTOCOL PREFIX KEYS BYTES

Sources: memcached's doc/protocol.txt, "set"; the Redis serialization protocol, RESP arrays.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence

SECONDS_MAX = 10.0


def storing(protocol: str, key: str, value: str) -> bytes:
    r"""Return the request that stores *value* under *key*.

    >>> storing("memcached", "k0", "abc")
    b'set k0 0 0 3\r\nabc\r\n'
    >>> storing("resp", "k0", "abc")
    b'*3\r\n$3\r\nSET\r\n$2\r\nk0\r\n$3\r\nabc\r\n'
    """
    if protocol == "memcached":
        return f"set {key} 0 0 {len(value)}\r\n{value}\r\n".encode()
    words = "".join(f"${len(word)}\r\n{word}\r\n" for word in ("SET", key, value))
    return f"*3\r\n{words}".encode()


def main(arguments: Sequence[str]) -> None:
    """Store all keys, one after the other; end with a sentence if the server does not take one."""
    address, port, protocol, prefix, n_keys, n_bytes = arguments
    taken = "STORED" if protocol == "memcached" else "+OK"
    with socket.create_connection((address, int(port)), SECONDS_MAX) as connection:
        answers = connection.makefile("rb")
        for number in range(int(n_keys)):
            connection.sendall(storing(protocol, f"{prefix}{number}", "x" * int(n_bytes)))
            answer = answers.readline().decode(errors="replace").strip()
            if answer != taken:
                sys.exit(f'{prefix}{number} is not stored: the server answers "{answer}"')


if __name__ == "__main__":
    main(sys.argv[1:])
