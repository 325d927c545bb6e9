"""The commands of studies: one answer each, kept, drawn, as JSON; and mistakes in a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.made_up_profile import Call
from typer.testing import Result

SMALL = ("--workers", 1)
VARY_MANY = ("--vary", "idle.connections=0..9999:10000", "--vary", "load.rate=1/s..9/s:999")


def sentence(result: Result) -> str:
    """Return what was said of a mistake: one line, and nothing left behind."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert list(Path.cwd().iterdir()) == []
    return result.stderr.splitlines()[-1]


def test_a_sweep_is_kept_and_goes_on(call: Call, scenario_path: Path, profile_path: Path) -> None:
    asked = ("sweep", scenario_path, "--profile", profile_path, *SMALL)
    result = call(*asked, "--vary", "load.rate=2000/s,4000/s", "--plot", "p.svg")
    assert result.exit_code == 0, result.output
    assert "2 points" in result.stdout
    assert "<svg" in Path("p.svg").read_text()
    content = json.loads(call(*asked, "--vary", "load.rate=2000/s..6000/s:3", "--json").stdout)
    assert [point["levels"]["load.rate"] for point in content["points"]] == [
        "2000/s",
        "4000/s",
        "6000/s",
    ]
    listed = call("results")
    assert listed.exit_code == 0, listed.output
    assert "6000/s" in listed.stdout
    n_before = len(list(Path("dispatchsim-results").glob("*.parquet")))
    call(*asked, "--vary", "load.rate=2000/s..6000/s:3")
    assert len(list(Path("dispatchsim-results").glob("*.parquet"))) == n_before
    call(*asked, "--vary", "load.rate=9000/s", "--no-store")
    assert len(list(Path("dispatchsim-results").glob("*.parquet"))) == n_before


def test_a_capacity_keeps_its_runs(call: Call, scenario_path: Path, profile_path: Path) -> None:
    asked = ("capacity", scenario_path, "--p99", "1 ms", "--profile", profile_path, *SMALL)
    options = ("--replications", 1, "--store", "kept")
    first = call(*asked, *options)
    assert first.exit_code == 0, first.output
    kept = set(Path("kept").iterdir())
    assert kept
    assert call(*asked, *options).stdout == first.stdout
    assert set(Path("kept").iterdir()) == kept
    assert call(*asked, "--replications", 1, "--no-store").stdout == first.stdout
    assert not Path("dispatchsim-results").exists()


def test_a_broken_fragment_is_named_and_made_again(
    call: Call, scenario_path: Path, profile_path: Path
) -> None:
    asked = ("sweep", scenario_path, "--vary", "load.rate=2000/s,4000/s", *SMALL)
    options = ("--profile", profile_path)
    whole = call(*asked, *options)
    (fragment,) = Path("dispatchsim-results").glob("*.parquet")
    fragment.write_bytes(fragment.read_bytes()[:100])
    again = call(*asked, *options)
    assert again.stdout == whole.stdout
    assert fragment.name in again.stderr
    assert "could not be read; its runs are simulated again" in " ".join(again.stderr.split())
    assert (Path("dispatchsim-results") / "quarantine" / fragment.name).exists()


def test_compare_over_a_grid_says_who_is_best(
    call: Call, scenario_path: Path, profile_path: Path
) -> None:
    options = ("--mechanisms", "poll,epoll_level", "--profile", profile_path, *SMALL)
    result = call("compare", scenario_path, *options, "--vary", "idle.connections=0,2000")
    assert result.exit_code == 0, result.output
    assert "no significant difference from the row's best" in result.stdout
    content = json.loads(
        call("compare", scenario_path, *options, "--vary", "idle.connections=2000", "--json").stdout
    )
    assert content["rounds"][0]["may_be_best"] == ["epoll_level"]


def test_tune_names_the_best_setting(call: Call, scenario_path: Path, profile_path: Path) -> None:
    options = ("--profile", profile_path, *SMALL, "--mechanism", "poll")
    result = call("tune", scenario_path, "--vary", "idle.connections=0,2000", *options)
    assert result.exit_code == 0, result.output
    assert "best: idle.connections = 0 (p99 " in result.stdout


def test_sensitivity_names_a_cost(call: Call, scenario_path: Path, profile_path: Path) -> None:
    options = ("--profile", profile_path, *SMALL, "--samples", 8)
    costs = ("--costs", "call.read_ns,epoll_level.call_ns,application.request_ns")
    result = call("sensitivity", scenario_path, *costs, *options)
    assert result.exit_code == 0, result.output
    assert "call.read_ns" in result.stdout
    assert "shares of the variance over 40 runs" in result.stdout


def test_steady_says_how_long_a_warm_up_must_be(
    call: Call, scenario_path: Path, profile_path: Path
) -> None:
    options = ("--profile", profile_path, *SMALL, "--runs", 3)
    result = call("steady", scenario_path, *options, "--plot", "s.svg")
    assert result.exit_code == 0, result.output
    assert "over the means of all runs" in result.stdout
    assert "warm-up: " in result.stdout
    assert "<svg" in Path("s.svg").read_text()


def test_forecast_says_what_its_intervals_hold(
    call: Call, scenario_path: Path, profile_path: Path
) -> None:
    options = ("--profile", profile_path, *SMALL, "--cost-samples", 3, "--level", "80%")
    result = call("forecast", scenario_path, *options, "--plot", "f.png")
    assert result.exit_code == 0, result.output
    assert "80% interval" in result.stdout
    assert Path("f.png").read_bytes().startswith(b"\x89PNG")
    assert "past errors are those of other machines" in result.stdout


def test_other_hardware_is_in_the_name_of_the_profile(
    call: Call, scenario_path: Path, profile_path: Path
) -> None:
    options = (*SMALL, "--json", "--no-store", "--profile", profile_path, "--cost-samples", 3)
    asked = ("forecast", scenario_path, *options)
    plain = json.loads(call(*asked).stdout)
    fast = json.loads(call(*asked, "--clock", 2, "--crossing", "2 us", "--cpus", 2).stdout)
    assert fast["profile"] == "made-up, clock x 2, crossing 2000 ns"
    assert fast["scenario"]["machine"]["cpus"] == 2
    (upper,) = (each for each in fast["warnings"] if each.startswith("capacity may be lower"))
    assert upper not in plain["warnings"]
    assert plain["expected"] != fast["expected"]
    linked = json.loads(call(*asked, "--link", "100 Mbit/s").stdout)
    assert linked["scenario"]["network"] == {"up": "100 Mbit/s", "down": "100 Mbit/s"}
    once = (scenario_path, "--profile", profile_path, "--cpus", 2, "--json", "--cost-samples", 0)
    one = json.loads(call("run", *once).stdout)
    several = json.loads(call("compare", *once, "--mechanisms", "poll,epoll_level").stdout)
    for result in (one, *several["results"].values()):
        assert result["scenario"]["machine"]["cpus"] == 2


def test_values_are_set_for_any_question(
    call: Call, scenario_path: Path, profile_path: Path
) -> None:
    options = ("--profile", profile_path, *SMALL, "--json", "--set", "load.rate=3000/s")
    for command in (
        ("run", "--cost-samples", 0),
        ("forecast", "--cost-samples", 3),
        ("steady", "--runs", 2),
    ):
        content = json.loads(call(command[0], scenario_path, *command[1:], *options).stdout)
        assert content["scenario"]["load"]["rate"] == "3000/s"


def test_settings_hold_together_in_any_order(
    call: Call, scenario_path: Path, profile_path: Path
) -> None:
    # The run is shorter than its warm-up was, until that is set, too.
    shorter = ("--set", "run.duration=40 ms", "--set", "run.warm_up=10 ms")
    asked = ("run", scenario_path, "--profile", profile_path, "--json")
    content = json.loads(call(*asked, *shorter).stdout)
    assert content["scenario"]["run"]["duration"] == "40 ms"
    result = call(*asked, "--set", "run.duration=40 ms", "--set", "run.warm_up=50 ms")
    assert "--set run.warm_up: must be shorter than run.duration" in sentence(result)


def test_all_wrong_settings_are_named_at_once(
    call: Call, scenario_path: Path, profile_path: Path
) -> None:
    wrong = (
        "load.rate=20k",
        "load.reply_size=8K",
        "server.backlogg=2",
        "server.backlog=0",
        "idle.connections=1,2",
    )
    options = [option for text in wrong for option in ("--set", text)]
    result = call("run", scenario_path, "--profile", profile_path, *options)
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        'error: --set server.backlogg: unknown key (did you mean "server.backlog"?)',
        "error: --set idle.connections: must be one value, got 2 values",
        "error: --set server.backlog: must be at least 1, got 0",
        'error: --set load.rate: must be a rate such as "2000/s" (units: /h, /min, /s), got "20k"',
        'error: --set load.reply_size: must be either "8 kB" (powers of 1000) or "8 KiB" (powers '
        'of 1024), got "8K"',
    ]


def test_a_setting_without_a_value_takes_the_key_away(
    call: Call, scenario_path: Path, profile_path: Path
) -> None:
    own = scenario_path.read_text().replace("[run]", 'timeout = "1 s"\n[run]')
    scenario_path.write_text(own.replace("[load]", "backlog = 7\n[load]"))
    asked = ("run", scenario_path, "--profile", profile_path, *SMALL, "--json", "--cost-samples", 0)
    kept = json.loads(call(*asked).stdout)["scenario"]
    assert (kept["server"]["backlog"], kept["load"]["timeout"]) == (7, "1 s")
    found = json.loads(call(*asked, "--set", "load.timeout=", "--set", "server.backlog = ").stdout)
    assert "timeout" not in found["scenario"]["load"]
    assert "backlog" not in found["scenario"]["server"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("load.rate=", 'load.rate: must have a value, as load.loop = "open" needs it'),
        ("load.rat=", 'load.rat: unknown key (did you mean "load.rate"?)'),
        ("server.mechanism=", "server.mechanism: must have a value, as it has no default"),
        (
            "run.seed=",
            "run.seed: cannot be set here; change run.seed in the scenario file; "
            "for more seeds, use --replications",
        ),
    ],
)
def test_a_key_that_cannot_be_taken_away_is_named(
    call: Call, scenario_path: Path, text: str, message: str
) -> None:
    result = call("run", scenario_path, "--set", text)
    assert (result.exit_code, result.stderr) == (2, f"error: --set {message}\n")


def test_settings_are_read_as_people_type_them(
    call: Call, scenario_path: Path, profile_path: Path
) -> None:
    typed = ("load.rate=3k/s", "idle.connections=0.1k", "network.up=1Gbps", "load.reply_size=8KB")
    options = [option for text in typed for option in ("--set", text)]
    asked = ("run", scenario_path, "--profile", profile_path, *SMALL, "--json", "--cost-samples", 0)
    found = json.loads(call(*asked, *options).stdout)["scenario"]
    assert (found["load"]["rate"], found["load"]["reply_size"]) == ("3000/s", "8 kB")
    assert (found["idle"]["connections"], found["network"]["up"]) == (100, "1 Gbit/s")


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("run", ("--mechanism", "epoll", "--cost-samples", 0)),
        ("run", ("--set", "server.mechanism=epoll", "--cost-samples", 0)),
        ("compare", ("--mechanisms", "epoll,poll")),
    ],
)
def test_a_mechanism_that_is_called_otherwise_is_named_once(
    call: Call, scenario_path: Path, profile_path: Path, command: str, options: tuple[object, ...]
) -> None:
    result = call(command, scenario_path, "--profile", profile_path, *SMALL, "--json", *options)
    notes = [line for line in result.stderr.splitlines() if line.startswith("mechanism ")]
    assert notes == [
        'mechanism "epoll" is epoll_level: Level-triggered epoll: the kernel keeps the set; a wait '
        "takes time for ready descriptors only"
    ]
    content = json.loads(result.stdout)
    first = content if command == "run" else next(iter(content["results"].values()))
    assert first["scenario"]["server"]["mechanism"] == "epoll_level"


def test_one_mechanism_under_two_names_is_refused(
    call: Call, scenario_path: Path, profile_path: Path
) -> None:
    asked = ("compare", scenario_path, "--profile", profile_path, "--mechanisms")
    assert "each once, got epoll, epoll_level" in sentence(call(*asked, "epoll,epoll_level"))


def test_replications_are_an_option_of_each_question_that_has_them(
    call: Call, scenario_path: Path, profile_path: Path
) -> None:
    asked = (scenario_path, "--profile", profile_path, *SMALL, "--json", "--replications", 2)
    assert json.loads(call("run", *asked, "--cost-samples", 0).stdout)["seeds"] == [1, 2]
    compared = json.loads(call("compare", *asked, "--mechanisms", "poll,select").stdout)
    assert [result["seeds"] for result in compared["results"].values()] == [[1, 2], [1, 2]]
    vary = ("--vary", "load.rate=2k/s,3k/s", "--no-store")
    swept = json.loads(call("sweep", *asked, *vary).stdout)
    assert [point["replications"] for point in swept["points"]] == [2, 2]
    assert "--replications: must be absent with --within" in sentence(
        call("sweep", *asked, *vary, "--within", "10%")
    )
    assert "cannot be set here; use --replications" in sentence(
        call("run", *asked, "--set", "run.replications=3")
    )
    assert json.loads(call("steady", *asked).stdout)["runs"] == 2


def test_a_store_that_cannot_be_written_is_said_before_anything_runs(
    call: Call, scenario_path: Path, profile_path: Path
) -> None:
    asked = ("sweep", scenario_path, "--profile", profile_path, "--vary", "load.rate=1000/s")
    result = call(*asked, "--store", scenario_path)
    assert "--store: must be a writable folder" in sentence(result)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sweep",), "--vary: must be given, such as"),
        (("tune",), "--vary: must be given, such as"),
        (
            ("run", "--profile", "no"),
            'error: --profile: there is no file and no profile "no": must be one of',
        ),
        (("sweep", "--vary", "load.rat=1/s"), "unknown key"),
        (
            (
                "sweep",
                "--vary",
                "idle.connections=0..999999:100000",
                "--vary",
                "load.rate=1/s..9/s:99",
            ),
            "the grid has 9,900,000 points",
        ),
        (("sweep", "--vary", "load.rate=1000/s", "--metric", "p98"), "--metric: must be a metric "),
        (("sweep", "--vary", "load.rate=1000/s", "--within", "2"), "--within: must be a share"),
        (
            ("sweep", "--vary", "load.rate=1000/s", "--plot", "a.gif"),
            "must end in .png, .svg or .pdf",
        ),
        (("capacity",), "--p99.9 and --objective"),
        (
            ("capacity", "--p99", "5 ms", "--objective", "p99 < 1 ms"),
            "must be absent with --p99",
        ),
        (("capacity", "--objective", "p99 = 1 ms"), "error: --objective: must look like"),
        (("capacity", "--p99", "1 ms", "--of", "server.mechanism"), "must be a number"),
        (
            ("tune", "--vary", "server.backlog=10,20", "--minimise", "x"),
            "error: --minimise: must be one of",
        ),
        (("sensitivity", "--samples", "7"), "samples: must be a power of 2"),
        (("forecast", "--level", "150%"), "--level: must be a level such as"),
        (("forecast", "--clock", "0"), "clock: must be from 0.01 to 100 times, got 0"),
        (("forecast", "--crossing", "3"), "--crossing: must be a duration"),
        (("forecast", "--link", "fast"), "--link: must be a bandwidth"),
        (("forecast", "--cpus", "0"), "--cpus: must be at least 1, got 0"),
        (("forecast", "--level", "99.9%"), "--level: must be from 50% to 99%, got 99.9%"),
        (("forecast", "--cost-samples", "1"), "--cost-samples: must be a whole number from 3"),
        (("steady", "--replications", "1"), "--replications: must be at least 2, got 1"),
        (("capacity", "--p99", "0 ms"), '--p99: must be above 0, got "0 ms"'),
        (("capacity", "--p99", "1 h"), "--p99: the bound is too large: a run lasts 1 h at most"),
        (("capacity", "--p98", "1 ms"), 'other percentiles: --objective "p98 < 50 ms"'),
        (("capacity", "--p99", "1 ms", "--output", "."), "--output: must be a file, got the"),
        (("run", "--set", "load.rate"), "--set: must be FIELD=VALUE such as load.rate=5000/s"),
        (("run", "--runs", "3"), '(did you mean "--replications"?)'),
        (("run", "--mechanism", "poll,select"), "--mechanisms poll,select` takes several"),
        (("sweep", "--vary", "load.rate=1/s..8/s:x"), "a number of steps such as :8 or :8log"),
        (("sweep", "--vary", "server.mechanism=epol"), "--vary server.mechanism: must be one of"),
        (("sweep", "--vary", "load.rate=1/s,2/s", "--cluster", "foo"), "be tcp://HOST:PORT of a"),
        (
            ("forecast", "--set", "server.workers=2", "--cpus", "3"),
            "--cpus: must be at most 2, the threads of the server (server.workers), as another CPU "
            "would run nothing, got 3",
        ),
        (("compare", "--vary", "load.rate=1000/s", "--mechanisms", "poll"), "at least two"),
        (
            ("compare", "--vary", "load.rate=1000/s", "--cost-samples", "3"),
            "--cost-samples: must be absent with",
        ),
        (("run", "--set", "load.rate=1/s,2/s"), "--set load.rate: must be one value"),
        (
            ("sweep", "--set", "load.rate=5", "--vary", "idle.connections=1"),
            "--set load.rate: must",
        ),
        (("compare", "--within", "10%"), "--within: needs --vary, such as"),
        (
            ("capacity", "--p99", "1 ms", "--plot", "no/p.png"),
            "--plot: must be in an existing folder",
        ),
    ],
)
def test_a_mistake_is_one_sentence(
    call: Call,
    scenario_path: Path,
    profile_path: Path,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    command, *options = arguments
    result = call(command, scenario_path, "--profile", profile_path, *SMALL, *options)
    assert message in sentence(result)


def test_an_unreachable_scheduler_is_named(
    call: Call, scenario_path: Path, profile_path: Path
) -> None:
    options = ("--profile", profile_path, "--cluster", "tcp://127.0.0.1:9")
    result = call("sweep", scenario_path, "--vary", "load.rate=1000/s", *options)
    assert "tcp://127.0.0.1:9" in sentence(result)


def test_a_list_of_effects_is_one_value_of_a_setting(call: Call) -> None:
    effects = "machine.without=interrupt-way, own-replies"
    told = call("run", "poll_10k_idle", "--set", effects, "--set", "run.duration=600 ms", "--json")
    assert told.exit_code == 0, told.stderr
    scenario = json.loads(told.stdout)["scenario"]
    assert scenario["machine"]["without"] == "interrupt-way, own-replies"
