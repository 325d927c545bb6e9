"""What comes from an address: read with suspicion, and given back as a link that shows the same."""

from __future__ import annotations

import tomllib
from urllib.parse import parse_qs

import pytest

from dispatchsim.models.catalogue import CATALOGUE
from dispatchsim.what_if.choices import (
    IDLE,
    MECHANISMS_MAX,
    RATE,
    SELECTS,
    SLIDERS,
    machines,
)
from dispatchsim.what_if.session import QUERY_MAX, read_query
from dispatchsim.what_if.view import RunLength, View, cautions, hindrances

RUN = RunLength(500, 3)


def view_of(**texts: str) -> View:
    view, notices = View.read({key: [text] for key, text in texts.items()})
    assert notices == []
    return view


def test_a_link_shows_the_same_view() -> None:
    view = view_of(rate="12345", idle="0", mechanisms="poll,select", style="ten", overload="events")
    assert read_query(view.query) == (view, [])
    assert parse_qs(view.query)["mechanisms"] == ["poll,select"]


def test_an_empty_address_is_the_default_view() -> None:
    assert read_query("") == (View(profile="epyc-family26-2cpu-linux-6.18"), [])


@pytest.mark.parametrize(
    ("key", "text", "rule"),
    [
        ("rate", "1e99", "must be a whole number from 100 to 100,000"),
        ("rate", "NaN", "must be a whole number"),
        ("rate", "-1", "must be a whole number"),
        ("rate", "", "must be a whole number"),
        ("rate", "9" * 5_000, "must be a whole number"),
        ("rate", "٣٤٥", "must be a whole number"),
        ("idle", "100001", "must be a whole number from 0 to 100,000"),
        ("profile", "../../etc/passwd", "must be one of"),
        ("profile", "/etc/passwd", "must be one of"),
        ("mechanisms", "<script>alert(1)</script>", "must be one of"),
        ("mechanisms", "poll,poll", f"must be 1 to {MECHANISMS_MAX} different mechanisms"),
        ("mechanisms", ",".join(CATALOGUE), f"must be 1 to {MECHANISMS_MAX} different mechanisms"),
        ("mechanisms", "", "must be one of"),
        ("style", "__class__", "must be one of one, ten, pauses"),
        ("overload", "x" * 1_000, "must be one of"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence_and_left_at_its_default(
    key: str, text: str, rule: str
) -> None:
    view, notices = View.read({key: [text]})
    assert view == View(profile="epyc-family26-2cpu-linux-6.18")
    (notice,) = notices
    assert notice.startswith(f"{key}: {rule}")
    assert notice.endswith(f"; {view.texts()[key]} is used instead")
    assert len(notice) < 800


def test_other_settings_are_kept_beside_one_that_cannot_be() -> None:
    view, notices = read_query("rate=2000&idle=none&rate=4000&colour=red")
    assert (view.rate, view.idle) == (4000, IDLE.default)
    assert [notice.split(":")[0] for notice in notices] == ["idle", '"colour"']


def test_a_thousand_faults_are_not_told_one_by_one() -> None:
    _, notices = read_query("&".join(f"k{i}=1" for i in range(90)))
    assert len(notices) == 7
    assert notices[-1] == "84 more settings could not be read"
    assert len(read_query("&".join(f"k{i}=" for i in range(200)))[1]) == 1
    assert len(read_query("x" * (QUERY_MAX + 1))[1]) == 1


def test_sliders_stop_at_their_defaults() -> None:
    for slider in SLIDERS:
        assert slider.default in slider.values
        assert list(slider.values) == sorted(set(slider.values))


@pytest.mark.parametrize("chosen", SELECTS, ids=lambda chosen: str(chosen.key))
def test_every_option_is_a_scenario(chosen: object) -> None:
    for name in chosen.options:  # type: ignore[attr-defined]
        view = view_of(**{chosen.key: name})  # type: ignore[attr-defined]
        assert view.scenario(RUN).run.replications == 3


def test_bounds_of_all_sliders_are_scenarios() -> None:
    for end in (0, -1):
        view = view_of(**{each.key: str(each.values[end]) for each in SLIDERS})
        assert hindrances(view) == {}
        assert view.scenario(RUN).load.rate == RATE.values[end]


def test_who_has_no_price_or_cannot_serve_is_named_with_the_reason() -> None:
    view = view_of(
        mechanisms="epoll_level,dev_poll,blocking", profile="epyc-family25-2cpu-linux-6.18"
    )
    found = hindrances(view)
    assert list(found) == ["dev_poll", "blocking"]
    assert "has no costs for it" in found["dev_poll"]
    assert "server.workers: must be at least" in found["blocking"]


def test_leaving_what_was_measured_is_said() -> None:
    assert cautions(view_of()) == []
    (far,) = cautions(view_of(idle="50000"))
    assert "measured up to 10000" in far
    (lent,) = cautions(view_of(mechanisms="kqueue"))
    assert "borrowed from epoll_level" in lent
    (old,) = cautions(view_of(profile="pentium3-400-linux-2.4"))
    assert "reconstructed" in old


def test_views_hold_nothing_that_toml_would_misread() -> None:
    content = view_of(overload="latency", patience="never").scenario(RUN).to_dict()
    assert tomllib.loads("x = 1") == {"x": 1}
    assert {type(v) for section in content.values() for v in section.values()} <= {str, int, float}


def test_the_page_says_which_machine_is_chosen_at_first_and_why() -> None:
    assert machines().default == "epyc-family26-2cpu-linux-6.18"
    assert machines().about.endswith(
        " Default epyc-family26-2cpu-linux-6.18: named by DISPATCHSIM_PROFILE."
    )
