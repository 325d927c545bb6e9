"""The server: whom it lets in, how many, and how it ends; and the page in a notebook."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from html.parser import HTMLParser
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit

import pytest
from bokeh.client import pull_session
from bokeh.core.json_encoder import serialize_json
from bokeh.util.token import generate_jwt_token, generate_session_id
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

import dispatchsim as ds
from dispatchsim.scenario.errors import UserError
from dispatchsim.what_if import notebook, serving
from dispatchsim.what_if.serving import Served
from dispatchsim.what_if.session import read_query
from dispatchsim.what_if.simulating import Simulations
from dispatchsim.what_if.viewers import look_at

PATIENCE_S = 60.0
LITTLE = "?mechanisms=poll&rate=100&idle=0"


def get(address: str) -> str:
    with urllib.request.urlopen(address, timeout=PATIENCE_S) as reply:
        return str(reply.read().decode())


def test_a_page_has_its_landmarks_without_a_script(served: Served) -> None:
    page = get(served.address + LITTLE)
    assert '<html lang="en"' in page
    assert "<h1>How many connections, at what rate" in page
    assert "<main" in page
    assert "<aside" in page


def test_nothing_of_the_address_is_in_the_page_but_as_text(served: Served) -> None:
    script = "<script>alert(1)</script>"
    _, notices = read_query(f"style={quote(script)}")
    assert script in notices[0]  # so it is told, in the text of the part that says what is wrong

    class Texts(HTMLParser):
        scripts = 0

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.scripts += tag == "script"

    counted = []
    for query in ("", f"&style={quote(script)}", f"&{quote(script)}=1"):
        found = Texts()
        found.feed(get(served.address + LITTLE + query))
        counted.append(found.scripts)
    assert counted[0] > 0
    assert counted == counted[:1] * 3


def test_no_more_viewers_are_let_in_than_there_is_room_for(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sessions() -> int:
        return len(served._server.get_sessions())

    # Pages of other tests that nobody looks at any more go in these seconds.
    monkeypatch.setattr(serving, "VIEWERS_MAX", sessions() + 2)
    for _ in range(6):
        with contextlib.suppress(HTTPError):
            assert "<h1>How many connections" in get(served.address + LITTLE)
        assert sessions() <= serving.VIEWERS_MAX
    monkeypatch.setattr(serving, "VIEWERS_MAX", 0)
    n_before = sessions()
    with pytest.raises(HTTPError) as refused:
        get(served.address + LITTLE)
    assert refused.value.code == 503
    assert "<h1>Too many viewers</h1>" in refused.value.read().decode()
    token = generate_jwt_token(generate_session_id())
    websocket = HTTPRequest(
        served.address.replace("http", "ws", 1) + "ws",
        headers={"Origin": served.address.rstrip("/")},
    )

    async def connect() -> None:
        await websocket_connect(websocket, subprotocols=["bokeh", token])

    with pytest.raises(HTTPClientError) as closed:
        asyncio.run(connect())
    assert closed.value.code == 503
    assert sessions() <= n_before


def test_a_page_of_another_site_cannot_look(served: Served) -> None:
    token = re.search(r'"token":"([^"]+)"', get(served.address + LITTLE))
    assert token is not None
    connecting = HTTPRequest(
        served.address.replace("http", "ws", 1) + "ws", headers={"Origin": "http://example.com"}
    )

    async def connect() -> None:
        await websocket_connect(connecting, subprotocols=["bokeh", token[1]])

    with pytest.raises(HTTPClientError) as refused:
        asyncio.run(connect())
    assert refused.value.code == 403


def test_a_page_made_for_its_websocket_alone_loads_nothing_from_elsewhere(served: Served) -> None:
    with contextlib.closing(pull_session(url=served.address)) as session:
        content = serialize_json(session.document.to_json())
    assert "static/extensions/panel/" in content
    assert "cdn." not in content


def test_viewers_are_answered_first_and_after_each_move(served: Served) -> None:
    # With the reference engine and the default view this takes seconds; what counts is that it is.
    (waits,) = asyncio.run(look_at(served.address, 1, 1))
    assert len(waits.moves_s) == 1


def command(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "dispatchsim", "explore", "--no-browser", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


def test_ctrl_c_ends_the_command_cleanly() -> None:
    with command("--port", "0") as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert re.fullmatch(r"The page is at http://127\.0\.0\.1:\d+/ \(Ctrl-C ends it\)\n", line)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, err) == (0, "ended\n", "")


def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (
            pytest.raises(UserError, match=f"^--port: must be free, got {port} "),
            serving.serving(port, workers=1, compiles=False),
        ):
            pass


@pytest.mark.parametrize("address", ["192.0.2.1", "nowhere.invalid"])
def test_an_address_that_is_not_of_this_machine_is_named(address: str) -> None:
    with (
        pytest.raises(UserError, match=f"^--address: must be an address of .*, got {address}"),
        serving.serving(0, address, workers=1, compiles=False),
    ):
        pass


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", ""])
def test_the_address_that_is_told_is_one_for_a_browser(address: str) -> None:
    try:
        serving.check_place(0, address)
    except UserError:
        pytest.skip(f"this machine has no {address}")
    with serving.serving(0, address, workers=1, compiles=False) as each:
        host = urlsplit(each.address).hostname
        assert host == (address or "127.0.0.1")


def test_explore_in_python_names_what_it_cannot_have() -> None:
    with pytest.raises(UserError, match=r"^explore: rate: must be a whole number from 100"):
        ds.explore(rate=10**9)
    with pytest.raises(UserError, match=r"^explore: profile: must be one of"):
        ds.explore(profile="/etc/passwd")
    with pytest.raises(UserError, match=r"^explore: must be called in a notebook"):
        ds.explore(rate=2000)


def test_a_notebook_shows_the_page_and_knows_its_numbers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def cell() -> None:
        shown = ds.explore(mechanisms=["poll", "select"], rate=100, idle=0)
        try:
            assert shown.view.mechanisms == ("poll", "select")
            assert shown.scenario.server.mechanism == "poll"
            for _ in range(round(PATIENCE_S / 0.05)):
                await asyncio.sleep(0.05)
                if len(shown.frame) == 8:
                    break
            assert set(shown.frame["mechanism"]) == {"poll", "select"}
            assert "Exploration of poll, select" in repr(shown)
            bundle = shown._repr_mimebundle_()
            assert "text/html" in (bundle[0] if isinstance(bundle, tuple) else bundle)
        finally:
            shown.close()

    simulations = Simulations(1, compiles=False)
    monkeypatch.setattr(notebook, "_simulations", lambda: simulations)
    try:
        asyncio.run(cell())
    finally:
        simulations.close()


def test_ctrl_c_means_what_it_did_when_the_page_has_ended() -> None:
    before = signal.getsignal(signal.SIGINT)
    with serving.serving(workers=1, compiles=False):
        pass
    assert signal.getsignal(signal.SIGINT) is before
