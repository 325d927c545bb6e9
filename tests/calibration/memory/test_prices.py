"""Prices of memory: what the bench finds, what is kept, and that the defaults are what is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.made_up_profile import Call, call

from dispatchsim.calibration.memory import prices as prices_module
from dispatchsim.calibration.memory.prices import (
    FOLDER,
    ITEMS,
    Price,
    ask,
    keep,
    kept_prices,
    keys_of_prices,
    prices_table,
    read_prices,
    settings_of_prices,
)
from dispatchsim.scenario.scenario import Scenario
from dispatchsim.sim.state.memory_settings import MemorySettings
from dispatchsim.sim.state.setting import declared

__all__ = ["call"]
KEPT = FOLDER / "linux-6.18.44-fc-v782.json"
LOAD = {"loop": "open", "rate": "2000/s"}


def bench(path: Path, text: str) -> Path:
    """Write a program that prints what the bench might."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_the_defaults_are_what_linux_6_18_keeps() -> None:
    prices = kept_prices(KEPT)
    assert list(prices) == list(ITEMS)
    assert not any(price.not_asked for price in prices.values())
    assert settings_of_prices(prices) == MemorySettings()


def test_each_kept_price_is_within_its_scatter_and_sockets_are_the_sum_of_their_parts() -> None:
    prices = kept_prices(KEPT)
    assert all(each.least <= each.bytes <= each.most for each in prices.values())
    # The accept queue holds the request of a connection (339) beside its socket until accept.
    parts = prices["queued"].bytes - prices["half_open"].bytes + prices["accepted"].bytes
    assert parts == pytest.approx(prices["socket"].bytes, rel=0.01)


def test_each_setting_is_priced_by_an_item() -> None:
    priced = [field for field, _ in ITEMS.values() if field]
    assert sorted(priced) == sorted(each.name for each in declared(MemorySettings))


def test_what_is_printed_last_is_a_section_of_a_scenario(tmp_path: Path) -> None:
    lines = keys_of_prices(kept_prices(KEPT))
    path = tmp_path / "s.toml"
    path.write_text(
        f'[server]\nmechanism = "poll"\n[load]\nloop = "open"\nrate = "2000/s"\n{lines}\n'
    )
    assert Scenario.read(path).machine.socket_memory == MemorySettings().socket_bytes


def test_what_the_kernel_forbids_is_not_asked_and_keeps_its_default(tmp_path: Path) -> None:
    found = {
        "poll": {"bytes": 100.2, "least": 90, "most": 110},
        "signal": {"not_asked": "sigqueue: Resource temporarily unavailable"},
    }
    path = bench(tmp_path / "bench", f"echo '{json.dumps(found)}'")
    prices = ask(10, 1, path)
    assert prices["poll"] == Price(100.2, 90, 110)
    assert prices["signal"].not_asked == "sigqueue: Resource temporarily unavailable"
    # The caller's array of 8 bytes a descriptor is the server's memory, too.
    assert settings_of_prices(prices) == MemorySettings(poll_bytes=108)
    assert prices_table(prices).rows[1][1] == "not asked"


def test_the_reason_of_a_group_that_failed_is_what_the_bench_complained_of() -> None:
    why = "memory: 10080 descriptors are needed, the hard limit of RLIMIT_NOFILE is 1024"
    (price,) = read_prices({"socket": {"not_asked": "a system call failed"}}, why).values()
    assert price.not_asked == why


def test_a_bench_that_fails_says_why(tmp_path: Path) -> None:
    path = bench(tmp_path / "bench", "echo 'memory: mmap failed' >&2; exit 1")
    with pytest.raises(ValueError, match="memory: mmap failed"):
        ask(10, 1, path)


def test_prices_are_kept_and_read_again(tmp_path: Path) -> None:
    prices = {"socket": Price(1.5, 1.0, 2.0), "signal": Price(not_asked="no")}
    path = keep(prices, 10, 1, tmp_path)
    assert kept_prices(path) == prices
    path.write_text('{"format": "dispatchsim-rules/1"}')
    with pytest.raises(ValueError, match="format must be dispatchsim-memory/1"):
        kept_prices(path)


def test_the_bench_asks_this_kernel_of_a_few() -> None:
    """No size is expected: it is another kernel's, and others use memory meanwhile."""
    prices = ask(100, 1)
    assert list(prices) == ["socket", "queued", "accepted", "request", "reply_kib", "epoll",
                            "armed", "signal", "thread", "poll", "select", "half_open",
                            "time_wait"]  # fmt: skip
    # What the kernel itself charges for a send buffer depends on nobody else.
    assert prices["reply_kib"].not_asked or prices["reply_kib"].bytes >= 1_024


def test_options_of_the_command_go_together(call: Call) -> None:
    result = call("lab", "memory-costs", "--output", "somewhere")
    assert result.exit_code == 2
    assert "--output: must be absent without --keep" in result.stderr


def test_prices_that_hold_memory_of_others_are_said_to(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prices_module, "ask", lambda *_: kept_prices(KEPT))
    readable = tmp_path / "slabinfo"
    readable.touch()
    monkeypatch.setattr(prices_module, "SLABINFO", readable)
    assert "slabinfo" not in call("lab", "memory-costs").stderr
    readable.unlink()
    result = call("lab", "memory-costs")
    assert result.exit_code == 0
    assert "cannot be read (run this as root)" in " ".join(result.stderr.split())
