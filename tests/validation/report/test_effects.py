"""The list of effects is checked word by word, so that a report cannot show half of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from dispatchsim.validation.report.effects import (
    SHIPPED,
    Change,
    EffectsError,
    effects_table,
    read_effects,
    short_effects_table,
)

EFFECT = """
[[effect]]
id = "poll-budget"
what = "A poll takes 64 packets at once."
where = "sim/cpu/interrupts.py"
found_by = "poll idle 1000 open 4500/s"
noise_free = { figure = "waits per request", statistic = "worst", before = 0.06, after = 0.01 }
"""
HARDWARE = 'hardware = { figure = "CPU", statistic = "median", before = 0.03, after = 0.0305 }\n'
HEAD = 'format = "dispatchsim-effects/1"\n'


def written(folder: Path, text: str) -> Path:
    path = folder / "effects.toml"
    path.write_text(text)
    return path


def test_the_shipped_list_is_in_order() -> None:
    assert isinstance(read_effects(SHIPPED), tuple)


def test_an_effect_says_what_it_was_worth_on_both_targets(tmp_path: Path) -> None:
    (effect,) = read_effects(written(tmp_path, HEAD + EFFECT + HARDWARE))
    assert effect.noise_free.verdict == "better"
    assert effect.hardware is not None
    assert effect.hardware.verdict == "unchanged"
    (row,) = effects_table([effect]).rows
    assert row[4] == "worst waits per request 6.0% → 1.0%"
    assert row[6:] == ("median CPU 3.0% → 3.0%", "unchanged")
    (short,) = short_effects_table([effect]).rows
    assert short == ("poll-budget", "6.0% → 1.0%", "better", "3.0% → 3.0%", "unchanged")


def test_an_effect_may_not_have_been_tried_on_hardware(tmp_path: Path) -> None:
    text = HEAD + EFFECT + 'untried = "needs another NIC"\n'
    (effect,) = read_effects(written(tmp_path, text))
    assert effects_table([effect]).rows[0][6:] == ("needs another NIC", "–")  # noqa: RUF001


def test_a_change_for_the_worse_is_called_so() -> None:
    change = Change(figure="CPU", statistic="worst", before=0.01, after=0.02)
    assert change.verdict == "worse"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("format = 1\n", r'format: must be "dispatchsim-effects/1", got 1'),
        ("format = \n", "must be TOML"),
        (HEAD + EFFECT.replace("where", "place"), 'effect 1.place: no key is called "place"'),
        (HEAD + EFFECT + "more = 1\n", 'effect 1.more: no key is called "more"'),
        (HEAD + EFFECT.replace("0.06", "-0.06"), r"noise_free\.before: .*got -0\.06"),
        (HEAD + EFFECT.replace("worst", "mean"), "noise_free.statistic: must be"),
        (HEAD + EFFECT.replace("poll-budget", "Poll budget"), "effect 1.id: "),
        (HEAD + EFFECT.replace("id =", "name ="), 'effect 1.name: no key is called "name"'),
        (HEAD + 2 * EFFECT, 'effect "poll-budget": must be listed once, got 2'),
        (HEAD + "effect = 3\n", "effect: .*got 3"),
    ],
)
def test_a_broken_list_is_explained(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(EffectsError, match=message):
        read_effects(written(tmp_path, text))


def test_a_missing_list_is_named(tmp_path: Path) -> None:
    with pytest.raises(EffectsError, match="must be readable"):
        read_effects(tmp_path / "none.toml")
