"""A server of the page in a thread, and a browser to look at it."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Iterator

import pytest

from dispatchsim.what_if.serving import Served, serving

PATIENCE_S = 60.0
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@contextlib.contextmanager
def serving_in_a_thread() -> Iterator[Served]:
    """Serve the page with the reference engine: nothing is compiled for these tests."""
    ready = threading.Event()
    found: list[Served] = []
    errors: list[BaseException] = []

    def serve() -> None:
        try:
            with serving(workers=1, compiles=False) as each:
                found.append(each)
                ready.set()
                each.run()
        except BaseException as error:
            errors.append(error)
            ready.set()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    assert ready.wait(PATIENCE_S)
    assert errors == []
    yield found[0]
    found[0].stop()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert errors == []


@pytest.fixture(scope="session")
def served() -> Iterator[Served]:
    """Return a page that all tests look at."""
    with serving_in_a_thread() as each:
        yield each


@pytest.fixture(scope="session")
def browser_path() -> str:
    """Return the program of a browser, or skip."""
    for name in BROWSERS:
        path = shutil.which(name)
        if path is not None:
            return path
    pytest.skip(f"no browser here ({', '.join(BROWSERS)}): apt-get install chromium")
