"""The step-through: what its frames say, and that its page works in a browser for everybody."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import dispatchsim as ds
from dispatchsim.recording.step_through import StepThrough, step_through
from dispatchsim.sim.state.kinds import NONE, Activity


def recorded(mechanism: str, idle: int = 30) -> ds.Recording:
    """Return a recording of a server with some idle connections."""
    scenario = ds.Scenario.of(
        server={"mechanism": mechanism},
        machine={"profile": "epyc-family25-2cpu-linux-6.18"},
        load={"loop": "open", "rate": "6000/s"},
        idle={"connections": idle},
        run={"duration": "100 ms", "warm_up": "20 ms"},
    )
    return ds.record(scenario, length="1 ms")


def texts(steps: StepThrough) -> list[str]:
    """Return the sentence of each frame."""
    return [frame["text"] for frame in steps.content["frames"]]


def test_a_scan_is_drawn_out_into_its_looks() -> None:
    recording = recorded("poll")
    steps = step_through(recording)
    said = texts(steps)
    assert "poll() checks descriptor 3: ready" in said
    assert "poll() checks descriptor 3: not ready" in said
    assert "poll() checks 30 idle descriptors, one after the other: none ready" in said
    assert any(text.startswith("read() takes the request of client") for text in said)
    # The looks of a scan take as long as the scan, so that the clock goes on without a jump.
    frames = steps.content["frames"]
    assert sum(frame["ns"] for frame in frames) == recording.end_ns - recording.begin_ns
    for before, after in pairwise(frames):
        assert before["at"] + before["ns"] == after["at"]


def test_calls_on_a_connection_to_the_backend_are_called_that() -> None:
    scenario = ds.Scenario.of(
        server={"mechanism": "epoll"},
        load={"loop": "open", "rate": "2000/s"},
        backend={"delay": "1 ms", "connections": 4},
        run={"duration": "100 ms", "warm_up": "20 ms"},
    )
    said = texts(step_through(ds.record(scenario, length="5 ms")))
    for text in (
        "write() sends a request on to the backend",
        "interrupt: a reply of the backend arrives: its connection becomes ready",
        "read() takes a reply of the backend",
    ):
        assert text in said
    at = said.index("read() takes a reply of the backend")
    assert said[at + 1].startswith("write() sends the reply to client")


def test_packets_that_are_handled_together_have_a_sentence_each() -> None:
    near, distant = (
        ds.Scenario.of(
            server={"mechanism": "epoll"},
            machine={"profile": "epyc-family25-2cpu-linux-6.18"},
            load={"loop": "open", "rate": "6000/s"},
            network={"delay": delay},
            run={"duration": "100 ms", "warm_up": "20 ms"},
        )
        for delay in ("0 ms", "1 ms")
    )
    syn, ack = "The SYN opens a connection.", "The ACK completes the handshake"
    request = "the connection can be accepted. The request can be read."
    for scenario, n, expected in (
        (near, 3, f"{syn} {ack}: {request}"),
        (distant, 2, f"{ack}: {request}"),
    ):
        frames = step_through(ds.record(scenario, length="1 ms")).content["frames"]
        said = {
            re.sub(r"client \d+", "client", frame["text"])
            for frame in frames
            if frame["packets"] == n and "client" in frame["text"]
        }
        assert said == {f"interrupt: {n} packets of client. {expected}"}


def test_a_ready_list_is_returned_without_a_look() -> None:
    said = texts(step_through(recorded("epoll_level")))
    assert not any("checks" in text for text in said)
    assert any(re.match(r"epoll_wait\(\) finds \d+ ready descriptor", text) for text in said)
    assert "epoll_wait() returns its events" in said
    assert "accept() finds no connection in the queue (EAGAIN)" in said


def test_a_server_told_by_signals_shows_its_queue() -> None:
    content = step_through(recorded("rt_signals", idle=0)).content
    assert content["told"]
    assert any(state["told"] for state in content["states"])


def test_a_page_that_is_cut_says_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = recorded("epoll_level")
    whole = step_through(recording)
    assert whole.content["cut"] == ""
    monkeypatch.setattr("dispatchsim.recording.step_through.FRAMES", 10)
    cut = step_through(recording)
    until_us = whole.content["frames"][10]["at"] / 1e3
    assert cut.content["cut"].startswith(
        f"These are the first 10 steps, {until_us:,.1f} µs of the "
    )
    assert cut.says.startswith("10 steps. These are")


def test_each_reply_leaves_once() -> None:
    recording = recorded("epoll_level")
    frames = step_through(recording).content["frames"]
    steps = {span.step for span in recording.spans if span.activity == Activity.WRITE}
    ended = [s for s in recording.steps_of_threads() if s.step in steps]
    assert sum(frame["replies"] for frame in frames) == len(ended) > 3
    assert NONE not in steps


def test_every_mechanism_can_be_stepped_through() -> None:
    for mechanism in ("select", "blocking", "io_uring", "kqueue", "dev_poll", "completion_port"):
        try:
            recording = recorded(mechanism, idle=0)
        except ds.ProfileError:
            continue  # it has no price on this machine
        said = texts(step_through(recording))
        assert said
        assert not any(word in text for text in said for word in ("-1", "{")), mechanism


def test_no_text_can_end_the_script_or_the_frame() -> None:
    content = {"frames": [], "states": [], "mechanism": "</script><b>&\u2028", "cpus": 1}
    steps = StepThrough('a "title" </title>', content)
    assert steps.html.count("</script>") == 2
    kept = re.search(r'id="content">(.*?)</script>', steps.html, re.DOTALL)
    assert kept is not None
    assert json.loads(kept[1]) == content
    frame = steps._repr_html_()
    assert frame.count("<") == 2
    assert frame.endswith("</iframe>")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Return a page of Debian's browser that shows the step-through of a small server."""
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("the page is looked at in chromium, which is not installed")
    from playwright.sync_api import sync_playwright

    path = tmp_path_factory.mktemp("page") / "steps.html"
    step_through(recorded("poll")).save(path)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        shown = chromium.new_page(viewport={"width": 1280, "height": 800})
        shown.goto(path.as_uri())
        yield shown
        chromium.close()


def test_keys_and_buttons_go_through_the_steps(page: Any) -> None:
    page.keyboard.press("Home")
    assert page.inner_text("#count").startswith("1 of ")
    page.keyboard.press("ArrowRight")
    page.click("#next")
    assert page.inner_text("#count").startswith("3 of ")
    page.click("#back")
    assert page.inner_text("#count").startswith("2 of ")
    page.keyboard.press("End")
    n = page.inner_text("#count").split()[0]
    assert page.inner_text("#count") == f"{n} of {n}"
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Home")
    page.select_option("#speed", "60")
    page.click("#play")
    page.wait_for_function("parseInt(document.getElementById('count').textContent) > 3")
    page.click("#play")
    assert "play" in page.inner_text("#play")


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_is_accessible_and_fits(page: Any, width: int) -> None:
    axe = import_module("axe_playwright_python.sync_playwright").Axe()  # without types
    page.set_viewport_size({"width": width, "height": 800})
    found = axe.run(page).response["violations"]
    assert [v["id"] for v in found if v["impact"] in ("serious", "critical")] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_page_is_written_whole(tmp_path: Path) -> None:
    recording = recorded("epoll_level")
    recording.steps().save(tmp_path / "steps.html")
    assert (tmp_path / "steps.html").read_text() == recording.steps().html
    assert "http" not in re.sub(r"<!DOCTYPE.*?>", "", recording.steps().html)
