"""`measure server`: what is refused, and what is printed about a server."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console
from tests.made_up_profile import Call

from dispatchsim.calibration.observed.observed_run import ObservedRun, observed_run
from dispatchsim.command_line.observed import recognised_sentences, runs_table
from dispatchsim.sim.files.tables import rich_table

SERVER = ("nginx", "--port", "80")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--port", "80"), "CMD: either CMD or --pid must be given, got neither"),
        (("nginx",), "--port: must be given"),
        ((*SERVER, "--pid", "1"), "CMD: either CMD or --pid must be given, got both"),
        (("nginx '", "--port", "80"), "CMD: must be a command line (No closing"),
        ((" ", "--port", "80"), "CMD: must name a program, got nothing"),
        ((*SERVER, "--address", "::1"), "--address: must be absent without --pid"),
        ((*SERVER, "--users", "4,many"), "--users: must be whole numbers from 1 to 1000000"),
        ((*SERVER, "--requests", "0"), 'separated by commas, got "0"'),
        ((*SERVER, "--idle", "-1"), "--idle: must be whole numbers from 0 to 65535"),
        ((*SERVER, "--idle", "70000"), 'separated by commas, got "70000"'),
        ((*SERVER, "--idle", ",".join(map(str, range(30)))), "must be at most 20 numbers, got 30"),
        ((*SERVER, "--rate", "fast"), "--rate: must be a rate"),
        ((*SERVER, "--environment", "EVENT"), '--environment: must be NAME=VALUE, got "EVENT"'),
        ((*SERVER, "--mechanism", "epol"), "--mechanism: "),
        ((*SERVER, "--quick"), "--quick: must be absent here; it belongs to"),
        (
            (*SERVER, "--steering", "client_machine"),
            '--steering: must be one of namespaces, loopback, got "client_machine"',
        ),
        (
            (*SERVER, "--target", "emulated"),
            "--target: must be absent here; it belongs to `dispatchsim measure machine`",
        ),
        (("--pid", "1", "--port", "80", "--steering", "loopback"), "--steering: must be absent"),
        (("fit", *SERVER), '"nginx": `dispatchsim measure server` takes only CMD'),
        ((*SERVER, "--driver", "httperf"), "--driver: httperf "),
    ],
)
def test_what_cannot_be_measured_is_one_sentence(
    options: tuple[str, ...], sentence: str, call: Call
) -> None:
    result = call("measure", "server", *options)
    assert result.exit_code == 2, result.output
    assert sentence in result.stderr
    assert list(Path.cwd().iterdir()) == []


def made_up(**fields: object) -> ObservedRun:
    usual = {
        "source": {"tool": "dispatchsim"},
        "load": {"loop": "closed", "users": 64, "idle": 250},
        "window_ns": 1_000_000_000,
        "offered": 1000,
        "replied": 1000,
    }
    return observed_run("made up", usual | fields)


def test_a_row_is_of_the_runs_that_may_be_used() -> None:
    runs = [
        made_up(replied=1000, process_ns=900_000_000, busy_share=1),
        made_up(replied=1100, errors={"reset": 2}, process_ns=900_000_000, busy_share=1),
        made_up(replied=10, accepted=False, reason="somebody else ran"),
        made_up(load={"loop": "open", "rate_per_s": 2000}, accepted=False),
    ]
    console = Console(width=150, record=True, file=io.StringIO())
    console.print(rich_table(runs_table(runs)))
    _, _, _, *rows = (" ".join(line.split()) for line in console.export_text().splitlines())
    assert rows == [
        "64 users, 1 requests, 250 idle 2 of 3 1,050/s 9.5% 60.5% 2 unknown unknown 90.0% 100.0%",
        "2,000/s, 1 requests 0 of 1 none none none none none none none none",
    ]


def test_what_was_recognised_and_what_is_to_be_said() -> None:
    counted = made_up(
        server={
            "mechanism": "epoll_edge",
            "closes_first": True,
            "workers": 2,
            "share": "handed over",
        },
        calls={"read": 2000, "accept4": 500},
        counted_by="strace",
        slow_down=6.5,
        doubts=("how many connections it accepts at a time (server.accept_limit)",),
    )
    assert recognised_sentences(counted) == [
        "recognised: waits with epoll_edge, closes before its clients do, 2 threads serve, another "
        "thread accepts for those that serve",
        "system calls of a request (one connection in two requests): 2 read, 0.5 accept4",
        "counted by strace in a separate run, 6.5 times as slow",
        "not detected: how many connections it accepts at a time (option --accept-limit)",
    ]
    assert "were not counted" in recognised_sentences(None)[0]
