"""How long viewers wait: many at once, each with its own view, on arrival and after a slider move.

    GET ──► page ──► websocket ──► first answer       the wait on arrival
    chosen ───────────────────────► its answer        the wait after a slider move

    dispatchsim lab viewers --viewers 10

The clock stops when the server's answer has left the websocket and is decoded. The time of a
browser to load scripts and to draw is not included. Views differ in their idle connections, so none
is served from memory.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from typing import Any, NamedTuple

import numpy as np
from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from ..sim.files.parallel import processes
from .serving import serving
from .view import View

_PATIENCE_S = 120.0
_STEPS = 5
_PAUSE_S = 0.4
"""Pause between two moves of a slider by one viewer."""
_TOKEN = re.compile(r'"token":"([^"]+)"')


class Waits(NamedTuple):
    """Waits of one viewer in seconds: for the first answer, and for that of each slider move."""

    first_s: float
    moves_s: tuple[float, ...]


class _Viewer:
    """A viewer on a websocket like a browser's."""

    def __init__(self, address: str, number: int) -> None:
        self._address = address
        self._number = number
        self._turn = 0
        self._socket: WebSocketClientConnection | None = None
        self._controls = ""

    async def look(self, n_moves: int) -> Waits:
        """Open the page, wait for the first answer, then move a slider *n_moves* times."""
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
        """Return a number of idle connections that no other view has."""
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
            raise ConnectionError("the page cannot be opened: too many viewers?")
        self._socket = await websocket_connect(
            HTTPRequest(
                self._address.replace("http", "ws", 1) + "ws",
                headers={"Origin": self._address.rstrip("/")},
            ),
            subprotocols=["bokeh", token[1]],
        )
        # A session takes no message before its ACK.
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
        """Wait for the answer to choice *turn*."""
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
    """Return the answers within *content*: JSON texts that begin with a turn."""
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
    """Return the waits of *viewers* at once for the page at *address*.

    Their views are numbered from *first*, each different from all others.
    """
    AsyncHTTPClient.configure(None, max_clients=viewers)
    return list(
        await asyncio.gather(*(_Viewer(address, first + i).look(n_moves) for i in range(viewers)))
    )


def report_of(waits: list[Waits]) -> str:
    """Return the waits of viewers as lines of text."""
    lines = []
    for what, seconds in (
        ("first answer", [each.first_s for each in waits]),
        ("after a slider move", [s for each in waits for s in each.moves_s]),
    ):
        p50, p90, most = np.quantile(seconds, (0.5, 0.9, 1.0))
        lines.append(
            f"{what:<26} {len(seconds):>4} times   median {p50:.2f} s   "
            f"90% within {p90:.2f} s   longest {most:.2f} s"
        )
    return "\n".join(lines)


def waits_at(address: str, viewers: int, n_moves: int = _STEPS) -> list[Waits]:
    """Return the waits of *viewers* at once for the page served at *address*."""
    return asyncio.run(look_at(address, viewers, n_moves))


def waits_served(viewers: int, n_moves: int = _STEPS) -> list[Waits]:
    """Serve the page and return the waits of *viewers* at once for it."""
    found: list[list[Waits]] = []
    with serving() as served:

        def look() -> None:
            try:
                # A viewer before all others waits until the engines are loaded.
                asyncio.run(look_at(served.address, 1, 1, first=viewers))
                # In a separate process: the viewers' decoding is not the server's work.
                with processes(1) as executor:
                    done = executor.submit(waits_at, served.address, viewers, n_moves)
                    found.append(done.result())
            finally:
                served.stop()

        thread = threading.Thread(target=look)
        thread.start()
        served.run()
        thread.join()
    if not found:
        raise ConnectionError("the page gave no answer: see the error above")
    return found[0]
