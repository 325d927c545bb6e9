"""The page in a real browser: sliders, links, hostile addresses, small screens, accessibility."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, Page, Route, expect, sync_playwright

from dispatchsim.scenario.scenario import Scenario
from dispatchsim.what_if.serving import Served

from .conftest import serving_in_a_thread

PATIENCE_MS = 120_000  # on a host that gives its guests a quarter of a CPU
LITTLE = "mechanisms=epoll_level,poll&rate=100&idle=10"
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser(browser_path: str) -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        # A container has no sandbox for who is root in it.
        found = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        yield found
        found.close()


class Looked:
    """A page that is looked at, and what it did besides."""

    def __init__(self, page: Page, home: str) -> None:
        self.page = page
        self.strangers: list[str] = []
        self.complaints: list[str] = []
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(dialog.message))

        def only_home(route: Route) -> None:
            if route.request.url.startswith(home):
                route.continue_()
            else:
                self.strangers.append(route.request.url)
                route.abort()

        page.route(re.compile("^(https?|ftp):"), only_home)

    def answered(self) -> str:
        """Wait for the first answer and return the sentence."""
        sentence = self.page.locator(".sentence")
        expect(sentence).to_contain_text("keep")
        return sentence.inner_text()

    def points(self, chart: str = "p99") -> dict[str, list[Any]]:
        """Return what a chart shows, from the browser."""
        plot = self.page.locator(f"[data-chart={chart}] .plot")
        self.page.wait_for_function(
            "plot => plot.drawn?.get_model_by_name('points').data.x.length > 0",
            arg=plot.element_handle(),
        )
        found = plot.evaluate("plot => JSON.stringify(plot.drawn.get_model_by_name('points').data)")
        return dict(json.loads(found))

    def finished(self) -> None:
        """Wait until all runs are done."""
        expect(self.page.locator(".progress")).to_contain_text("All runs done")


@pytest.fixture
def look(browser: Browser, served: Served) -> Iterator[Any]:
    pages: list[Looked] = []

    def look(query: str = LITTLE, viewport: dict[str, int] = WIDE) -> Looked:
        page = browser.new_page(viewport=viewport)  # type: ignore[arg-type]
        looked = Looked(page, served.address)
        pages.append(looked)
        page.goto(f"{served.address}?{query}")
        return looked

    yield look
    for each in pages:
        each.page.close()
        assert each.strangers == []
        assert each.complaints == []


def test_a_page_answers_and_draws(look: Any, served: Served) -> None:
    looked = look()
    assert looked.answered().startswith("epoll_level and poll keep up with all loads to 200/s.")
    points = looked.points()
    assert set(points["who"]) == {"epoll_level", "poll"}
    assert min(points["y"]) > 0
    looked.finished()
    expect(looked.page).to_have_title("dispatchsim: what if?")
    # What cannot be seen in a canvas is in a table.
    section = looked.page.locator("section", has=looked.page.get_by_text("How long the slowest"))
    section.get_by_text("As a table").click()
    expect(section.get_by_role("rowheader", name="100/s", exact=True)).to_be_visible()


def test_a_slider_moves_the_figure_and_the_address(look: Any) -> None:
    looked = look()
    looked.answered()
    slider = looked.page.get_by_label("New connections")
    before = looked.points()["x"]
    slider.focus()
    for _ in range(3):
        slider.press("ArrowRight")
    expect(slider).to_have_attribute("aria-valuetext", "200/s")
    expect(looked.page.locator(".sentence")).to_contain_text("At 200/s")
    after = looked.points()["x"]
    assert max(before) == 200.0
    assert max(after) == 400.0
    expect(looked.page).to_have_url(re.compile("rate=200"))


def test_a_link_that_is_passed_on_shows_the_same(look: Any) -> None:
    looked = look()
    looked.answered()
    looked.page.get_by_label("Each connection").select_option("ten")
    looked.page.get_by_label("Idle connections").press("End")
    looked.page.get_by_label("poll", exact=True).uncheck()
    expect(looked.page).to_have_url(re.compile("idle=100000.*style=ten"))
    expect(looked.page.locator(".cautions")).to_contain_text("measured up to 10000")
    expect(looked.page.locator(".legend li")).to_have_text(["epoll_level"])
    looked.answered()
    other = look(urlsplit(looked.page.url).query)
    other.answered()
    assert parse_qs(urlsplit(other.page.url).query)["mechanisms"] == ["epoll_level"]
    expect(other.page.get_by_label("Each connection")).to_have_value("ten")
    expect(other.page.get_by_label("Idle connections")).to_have_attribute(
        "aria-valuetext", "100,000"
    )
    expect(other.page.get_by_label("poll", exact=True)).not_to_be_checked()
    expect(other.page.locator(".cautions")).to_contain_text("measured up to 10000")


def test_a_hostile_address_is_answered_in_sentences(look: Any) -> None:
    script = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    looked = look(
        f"{LITTLE}&profile=../../etc/passwd&backlog=1e99&accept=NaN&"
        f"style={quote(script)}&{quote(script)}=1"
    )
    looked.answered()
    notices = looked.page.locator(".notices")
    expect(notices.locator("li")).to_have_count(5)
    for text in (
        'backlog: must be a whole number from 16 to 65,535, got "1e99"; 4096 is used instead',
        'style: must be one of one, ten, pauses, got "<script>alert(1)</script>',
        'got "../../etc/passwd"',
    ):
        expect(notices).to_contain_text(text)
    assert looked.page.locator("img, main script").count() == 0
    assert len(looked.points()["x"]) > 0


def test_a_small_screen_holds_the_page(look: Any) -> None:
    looked = look(viewport=PHONE)
    looked.answered()
    looked.points()
    width = "document.documentElement.scrollWidth"
    assert looked.page.evaluate(width) <= PHONE["width"]
    slider = looked.page.get_by_label("New connections")
    box = slider.bounding_box()
    assert box is not None
    assert box["height"] >= 24
    assert box["y"] + box["height"] < PHONE["height"]
    looked.page.get_by_text("Mechanisms to compare").click()
    looked.page.get_by_label("select", exact=True).check()
    expect(looked.page.locator(".legend")).to_contain_text("select")


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_nothing_serious_keeps_anybody_out(look: Any, viewport: dict[str, int]) -> None:
    looked = look(f"{LITTLE}&accept=none&profile=epyc-family25-2cpu-linux-6.18", viewport)
    looked.answered()
    looked.points("events")
    # All that can be unfolded is looked at, too.
    for details in looked.page.locator("details").all():
        details.evaluate("details => { details.open = true; }")
    found = Axe().run(looked.page).response["violations"]
    serious = [each for each in found if each["impact"] in ("serious", "critical")]
    assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in serious] == []


def test_the_scenario_the_data_and_the_figure_can_be_taken_along(look: Any, tmp_path: Path) -> None:
    looked = look()
    looked.answered()
    content = {}
    for label in ("Scenario (TOML)", "Data (CSV)", "Picture (PNG)"):
        with looked.page.expect_download() as waiting:
            looked.page.get_by_role("button", name=label).click()
        path = tmp_path / waiting.value.suggested_filename
        waiting.value.save_as(path)
        content[path.name] = path.read_bytes()
    scenario = Scenario.check(tomllib.loads(content["dispatchsim.toml"].decode()), "taken along")
    assert (scenario.load.rate, scenario.idle.connections) == (100, 10)
    assert content["dispatchsim.csv"].startswith(b"mechanism,rate_per_s,")
    assert content["dispatchsim.png"].startswith(b"\x89PNG")


def test_who_closes_the_page_leaves(look: Any, served: Served) -> None:
    looked = look()
    looked.answered()
    n_before = served.simulations.n_viewers
    looked.page.goto("about:blank")
    other = look()
    other.answered()
    # The first one's session is discarded some seconds later.
    for _ in range(60):
        if served.simulations.n_viewers <= n_before:
            break
        other.page.wait_for_timeout(250)
    assert served.simulations.n_viewers <= n_before


def test_a_page_says_when_its_server_is_gone(browser: Browser) -> None:
    with serving_in_a_thread() as served:
        looked = Looked(browser.new_page(), served.address)
        looked.page.goto(f"{served.address}?{LITTLE}")
        looked.answered()
        lost = looked.page.get_by_text("The server has ended")
        expect(lost).to_be_hidden()
    expect(lost).to_be_visible()
    looked.page.close()
