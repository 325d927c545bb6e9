"""What a scenario file says of clients' ways to the link, and what is refused."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from dispatchsim.command_line.rendering import print_result
from dispatchsim.scenario.errors import ScenarioError
from dispatchsim.scenario.metrics import METRICS
from dispatchsim.scenario.run_settings import settings_of
from dispatchsim.scenario.scenario import Scenario
from dispatchsim.sim.state.client_settings import Closing, PathSettings
from dispatchsim.studies.comparison import run


def scenario(*paths: dict[str, Any], **network: Any) -> Scenario:
    return Scenario.of(
        server={"mechanism": "epoll_level"},
        load={"loop": "open", "rate": "1000/s", "arrivals": "constant"},
        network=network,
        path=list(paths),
    )


def test_paths_become_settings() -> None:
    modem = {"share": 0.25, "delay": "100 ms", "up": "33 kbit/s", "down": "56 kbit/s", "loss": 0.01}
    given = scenario({"share": 0.75}, modem, set_up=2)
    network = settings_of(given, 0, 1).network
    assert network.set_up == 2
    assert network.paths == (
        PathSettings(750),
        PathSettings(250, 100_000_000, 33_000, 56_000, 10_000),
    )


def test_losses_are_random_and_paths_without_are_not() -> None:
    assert len(scenario({"share": 1.0, "loss": 0.01}).seeds) == 5
    assert len(scenario({"share": 1.0, "delay": "1 ms"}).seeds) == 1


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ({"share": 0.5}, "path.share: must add up to 1 over all [[path]], got 0.5"),
        ({"delay": "1 ms"}, "path 1.share: must be given unless every [[clients]] names a path"),
        ({"share": 1.0, "name": ""}, 'path 1.name: must have 1 to 40 characters, got ""'),
        (
            {"share": 1.0, "name": "a\x7f"},
            'path 1.name: must have no control characters, got "a\\u007f"',
        ),
        ({"share": 1.0, "loss": 1.0}, "path 1.loss: must be below 1, got 1.0"),
        ({"share": 1.0, "delay": "1"}, "path 1.delay: must be "),
    ],
)
def test_what_is_no_path_is_refused_by_name(path: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        scenario(path)
    assert message in str(error.value)


def test_figures_of_paths_are_named_or_numbered() -> None:
    given = scenario({"share": 0.5}, {"share": 0.5, "name": "modem", "delay": "20 ms"})
    result = run(given.with_values(run={"duration": "400 ms", "warm_up": "50 ms"}))
    paths = result.to_dict()["paths"]
    assert list(paths) == ["1", "modem"]
    assert set(paths["modem"]) <= set(METRICS)
    assert paths["modem"]["p50_answered_ns"]["mean"] > 80e6 > paths["1"]["p99_answered_ns"]["mean"]
    assert paths["1"]["offered"]["mean"] + paths["modem"]["offered"]["mean"] == 350
    console = Console(record=True, width=100, file=io.StringIO())
    print_result(console, result)
    text = console.export_text()
    assert "by path" in text
    assert "modem" in text
    assert run(scenario()).to_dict()["paths"] == {}


def test_two_paths_of_one_name_are_refused() -> None:
    with pytest.raises(ScenarioError, match=r"path 2\.name: must be of one path only, got \"a\""):
        scenario({"share": 0.5, "name": "a"}, {"share": 0.5, "name": "a"})
    with pytest.raises(ScenarioError, match=r"path 2\.name: must be of one path only, got \"2\""):
        scenario({"share": 0.5, "name": "2"}, {"share": 0.5})


def test_how_clients_close_and_who_is_first_become_settings() -> None:
    given = Scenario.of(
        server={"mechanism": "poll", "closes_first": False, "drops_half_closed": True},
        load={"loop": "closed", "users": 3, "close": "half-close"},
    )
    settings = settings_of(given, 0, 1)
    assert settings.client.closing == Closing.HALF_CLOSE
    assert (settings.program.closes_first, settings.program.drops_half_closed) == (False, True)
    plain = settings_of(scenario(), 0, 1)
    assert plain.client.closing == Closing.RESET
    assert (plain.program.closes_first, plain.program.drops_half_closed) == (True, False)


def test_another_way_to_close_is_refused_by_name() -> None:
    with pytest.raises(ScenarioError, match=r'load\.close: must be "reset", "fin" or "half-close"'):
        Scenario.of(
            server={"mechanism": "poll"}, load={"loop": "closed", "users": 3, "close": "slam"}
        )
