"""How long viewers wait: so many at once, each with another view, first to come and then to drag.

    GET ──► page ──► websocket ──► first answer       what a newcomer waits for
    chosen ───────────────────────► its answer        what follows a slider

    python -m dispatchsim.what_if.viewers --viewers 10

The clock is the server's answer as it leaves the websocket, decoded; what a browser needs to load
its scripts and to draw is not in it. Views differ in their idle connections, so that nobody is
served from memory.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
import threading
import time
from typing import Any, NamedTuple

import numpy as np
from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from .serving import serving
from .view import View

_PATIENCE_S = 120.0
_STEPS = 5
_PAUSE_S = 0.4
"""Between two moves of a slider by one viewer."""
_TOKEN = re.compile(r'"token":"([^"]+)"')


class Waits(NamedTuple):
    """Seconds of one viewer: until the first answer, and until that of each move of a slider."""

    first_s: float
    moves_s: tuple[float, ...]


class _Viewer:
    """One who looks, through a websocket as a browser has it."""

    def __init__(self, address: str, number: int) -> None:
        self._address = address
        self._number = number
        self._turn = 0
        self._socket: WebSocketClientConnection | None = None
        self._controls = ""

    async def look(self, n_moves: int) -> Waits:
        """Come, wait for the first answer, then move a slider so many times."""
        begun = time.perf_counter()
        await self._come()
        await self._answered(0)
        first_s = time.perf_counter() - begun
        moves = []
        for i in range(n_moves):
            await asyncio.sleep(_PAUSE_S)
            begun = time.perf_counter()
            await self._choose(self._idle(i + 1))
            await self._answered(self._turn)
            moves.append(time.perf_counter() - begun)
        assert self._socket is not None
        self._socket.close()
        return Waits(first_s, tuple(moves))

    def _idle(self, move: int) -> int:
        """Return a number of idle connections that nobody else has."""
        return 1_000 + 100 * self._number + move

    def _query(self, idle: int) -> str:
        view, _ = View.read({"idle": [str(idle)]})
        return view.query

    async def _come(self) -> None:
        url = f"{self._address}?{self._query(self._idle(0))}"
        reply = await AsyncHTTPClient().fetch(HTTPRequest(url, request_timeout=_PATIENCE_S))
        page = reply.body.decode()
        token = _TOKEN.search(page)
        if token is None:
            raise ConnectionError("the page is not one that can be looked at: too many viewers?")
        self._socket = await websocket_connect(
            HTTPRequest(
                self._address.replace("http", "ws", 1) + "ws",
                headers={"Origin": self._address.rstrip("/")},
            ),
            subprotocols=["bokeh", token[1]],
        )
        # A session takes no message before it has said that it is there.
        while '"ACK"' not in str(await self._socket.read_message()):
            pass
        await self._send("PULL-DOC-REQ", {})
        ready = {"type": "event", "name": "document_ready", "values": {"type": "map"}}
        message = {"kind": "MessageSent", "msg_type": "bokeh_event", "msg_data": ready}
        await self._send("PATCH-DOC", {"events": [message]})

    async def _send(self, kind: str, content: dict[str, Any]) -> None:
        assert self._socket is not None
        header = {"msgid": f"{self._number}-{self._turn}-{kind}", "msgtype": kind}
        for part in (header, {}, content):
            await self._socket.write_message(json.dumps(part))

    async def _choose(self, idle: int) -> None:
        self._turn += 1
        chosen = {"turn": self._turn, "query": self._query(idle)}
        event = {
            "kind": "ModelChanged",
            "model": {"id": self._controls},
            "attr": "chosen",
            "new": {"type": "map", "entries": list(map(list, chosen.items()))},
        }
        await self._send("PATCH-DOC", {"events": [event]})

    async def _answered(self, turn: int) -> None:
        """Wait until the answer to that choice has come."""
        assert self._socket is not None
        while True:
            message = await asyncio.wait_for(
                asyncio.ensure_future(self._socket.read_message()), _PATIENCE_S
            )
            if message is None:
                raise ConnectionError("the server has closed the websocket")
            if not isinstance(message, str):
                continue
            content = json.loads(message)
            if not self._controls:
                self._controls = _model_with(content, "spec") or ""
            if any(
                answer.get("turn") == turn and answer.get("is_first_known")
                for answer in _answers(content)
            ):
                return


def _answers(content: Any) -> list[dict[str, Any]]:
    """Return what views say within *content*: texts of JSON with a sentence."""
    if isinstance(content, str):
        return [json.loads(content)] if content.startswith('{"turn"') else []
    values = content.values() if isinstance(content, dict) else content
    found: list[dict[str, Any]] = []
    for value in values if isinstance(content, dict | list) else ():
        found += _answers(value)
    return found


def _model_with(content: Any, attribute: str) -> str | None:
    """Return the identifier of the model that has *attribute*."""
    if isinstance(content, dict):
        if "id" in content and attribute in (content.get("attributes") or {}):
            return str(content["id"])
        content = list(content.values())
    if isinstance(content, list):
        for value in content:
            found = _model_with(value, attribute)
            if found is not None:
                return found
    return None


async def look_at(
    address: str, viewers: int, n_moves: int = _STEPS, *, first: int = 0
) -> list[Waits]:
    """Return how long each of *viewers* at once waits for the page at *address*.

    Their views are numbered from *first*, each different from all others.
    """
    AsyncHTTPClient.configure(None, max_clients=viewers)
    return list(
        await asyncio.gather(*(_Viewer(address, first + i).look(n_moves) for i in range(viewers)))
    )


def _report(waits: list[Waits]) -> str:
    lines = []
    for what, seconds in (
        ("first answer", [each.first_s for each in waits]),
        ("after a slider has moved", [s for each in waits for s in each.moves_s]),
    ):
        p50, p90, most = np.quantile(seconds, (0.5, 0.9, 1.0))
        lines.append(
            f"{what:<26} {len(seconds):>4} times   median {p50:.2f} s   "
            f"90% within {p90:.2f} s   longest {most:.2f} s"
        )
    return "\n".join(lines)


def main() -> None:
    """Serve the page, have it looked at, and print how long that took."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--viewers", type=int, default=10)
    parser.add_argument("--moves", type=int, default=_STEPS, help="of a slider, by each viewer")
    parser.add_argument("--address", help="of a page that is served already")
    asked = parser.parse_args()
    if asked.address is not None:
        print(_report(asyncio.run(look_at(asked.address, asked.viewers, asked.moves))))
        return
    with serving() as served:
        # In a process of their own: what viewers decode is not the server's work.
        command = [sys.executable, "-m", "dispatchsim.what_if.viewers", "--address"]
        command += [served.address, "--viewers", str(asked.viewers), "--moves", str(asked.moves)]
        status = []

        def look() -> None:
            try:
                # One who comes before all others waits for the engines to be loaded.
                asyncio.run(look_at(served.address, 1, 1, first=asked.viewers))
                status.append(subprocess.run(command, check=False).returncode)
            finally:
                served.stop()

        thread = threading.Thread(target=look)
        thread.start()
        served.run()
        thread.join()
    sys.exit(status[0] if status else 1)


if __name__ == "__main__":
    main()
