"""What the site is made of: pages from the sources, links, and the parser of commands."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
from docs.making.accuracy import (
    BEGIN,
    END,
    accuracy_tables,
    error,
    errors_table,
    numbers,
    readme_block,
    scores,
    write_readme,
)
from docs.making.commands import check_command, commands_in
from docs.making.cost_words import COMMON, OF_TABLE, about_cost
from docs.making.html_links import broken_links, read_pages
from docs.making.mechanism_pages import draw, mechanism_page, part_names, parts_page, scenario_of
from docs.making.names import exists
from docs.making.reference_pages import (
    command_page,
    escaped,
    figure_page,
    profile_page,
    scenario_page,
)
from docs.making.staging import links_within
from docs.making.timelines import PICTURE, two_timelines

from dispatchsim.calibration.profiles.cost import TABLES
from dispatchsim.calibration.profiles.cost_profile import NOISY
from dispatchsim.models.catalogue import CATALOGUE
from dispatchsim.scenario.errors import UserError
from dispatchsim.scenario.metrics import METRICS
from dispatchsim.scenario.scenario import Scenario, scenario_schema
from dispatchsim.validation.drawing.figures import to_png
from dispatchsim.validation.report.reported import DIFFERENCE_MAX, difference


def test_each_field_of_a_scenario_has_an_entry() -> None:
    page = scenario_page()
    definitions = scenario_schema()["$defs"]
    names = [
        f"{section}.{key}"
        for section, kind in zip(Scenario.model_fields, _sections(), strict=True)
        for key in definitions[kind]["properties"]
    ]
    assert len(names) > 100
    assert [name for name in names if f"{{confval}} {name}\n" not in page] == []


def _sections() -> list[str]:
    return [
        prop["items"]["$ref"].rpartition("/")[2]
        if "items" in prop
        else prop["$ref"].rpartition("/")[2]
        for prop in scenario_schema()["properties"].values()
    ]


def test_a_field_says_its_unit_its_bounds_and_its_default() -> None:
    page = scenario_page()
    duration = page[page.index("{confval} run.duration") :].split("```")[0]
    assert 'from 1 ms to 1 h, such as `"50 ms"` (units ns, us, ms, s, min, h)' in duration
    assert ':default: `"2500 ms"`' in duration
    idle = page[page.index("{confval} idle.connections") :].split("```")[0]
    assert ":type: whole number from 0 to 10,000,000" in idle
    loop = page[page.index("{confval} load.loop") :].split("```")[0]
    assert ':type: `"open"` or `"closed"`' in loop
    assert ":default: must be given" in loop


def test_each_cost_is_said_in_words_and_no_word_is_idle() -> None:
    page = profile_page()
    used = set()
    for table, kind in TABLES.items():
        assert f"### `cost.{table}`" in page
        for name in kind._fields:
            assert about_cost(kind.__name__, name) in page
            own = name in OF_TABLE.get(kind.__name__, {})
            used.add((kind.__name__ if own else "", name))
    said = {("", name) for name in COMMON}
    said |= {(kind, name) for kind, names in OF_TABLE.items() for name in names}
    assert used == said


def test_each_figure_has_words_and_a_unit() -> None:
    page = figure_page()
    assert "| `p99_ns` | ns | 99th percentile of the response time of every due request" in page
    assert "| `cpu_accept` | share | share of all CPU time: accept |" in page
    assert all(f"| `{name}` | " in page and metric.about for name, metric in METRICS.items())


def test_each_command_and_option_is_on_the_page() -> None:
    page = command_page()
    for line in (
        "## `dispatchsim lab ablation`",
        "## `dispatchsim run`",
        "## `dispatchsim measure server`",
        "```text\ndispatchsim measure machine [KIND] [OPTIONS]\n```",
        "{option} --cost-samples N",
        "{option} --ablation, --no-ablation",
    ):
        assert line in page


@pytest.mark.parametrize("name", CATALOGUE)
def test_each_mechanism_has_a_page_with_its_source_and_costs(name: str) -> None:
    page = mechanism_page(name, picture="timeline.svg")
    assert page.startswith(f"# `{name}`\n")
    assert escaped(CATALOGUE[name].source) in page
    assert page.count(escaped(CATALOGUE[name].about)) == 1
    for cost in CATALOGUE[name].costs._fields:
        assert f"| `{cost}` |" in page


def test_a_timeline_is_drawn_of_the_same_clients_whatever_the_mechanism(tmp_path: Path) -> None:
    pictures = []
    for name in ("select", "blocking"):
        draw(name, tmp_path / name)
        pictures.append((tmp_path / name).read_text())
        assert scenario_of(name).load == scenario_of("poll").load
    assert pictures[0] != pictures[1]
    assert all("<svg" in picture for picture in pictures)


def test_parts_are_what_is_no_mechanism() -> None:
    assert {"scan", "event_loop", "signal_queue"} <= set(part_names())
    assert "poll_pollfd" not in part_names()
    assert "(part-signal-queue)=" in parts_page()


def test_numbers_are_those_that_were_reported() -> None:
    target = scores()["hardware"][0]["targets"][0]
    assert numbers()["capacity_median_error"] == error(target["values"]["dispatchsim"])
    assert all(numbers().values())


def test_text_that_looks_like_markup_is_not() -> None:
    assert escaped("<path> of `a_b` {x} *y*") == r"\<path\> of `a_b` \{x\} \*y\*"


@pytest.mark.parametrize(
    "command",
    [
        "dispatchsim measure machine --target emulated --quick --output counted",
        "dispatchsim validate papers --fast",
        "dispatchsim --help",
        "dispatchsim run --help",
    ],
)
def test_what_takes_hours_is_checked_as_far_as_its_words(command: str) -> None:
    check_command(command.split())


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        ("dispatchsim mesure", "mesure"),
        ("dispatchsim measure machine --reapeats 3", "--reapeats"),
        ("dispatchsim measure machine --repeats many", "--repeats"),
        ("dispatchsim run", "SCENARIO"),
    ],
)
def test_a_command_that_does_not_parse_is_named(command: str, fault: str) -> None:
    with pytest.raises(UserError, match=fault):
        check_command(command.split())


def test_commands_are_found_wherever_a_page_has_them() -> None:
    page = (
        "Ask `dispatchsim\nprofiles` first:\n\n"
        "    dispatchsim run x   # some seconds\n\n"
        "```sh\ndispatchsim sweep y --vary a=1\n```\n"
        "```text\ndispatchsim of an output\n```\n"
    )
    assert commands_in(page) == [
        "dispatchsim run x",
        "dispatchsim sweep y --vary a=1",
        "dispatchsim profiles",
    ]


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("dispatchsim.sim.state.world.World", True),
        ("dispatchsim.sim.figures.summary.Summary.to_dict", True),
        ("dispatchsim.sim.state.world.Wrold", False),
        ("dispatchsim.smi.world.World", False),
        ("pandas.DataFrame", False),
    ],
)
def test_a_name_that_is_gone_is_told_from_one_without_an_entry(name: str, *, known: bool) -> None:
    assert exists(name) is known


def test_links_of_the_repository_lead_to_what_the_site_has(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    links = ("[`raw/`](raw)", "[notes](notebooks/README.md)", "[a](a.py)", "![p](raw/p.png)")
    text = ", ".join((*links, "[r](v/report.html)"))
    assert links_within(text, tmp_path) == (
        "`raw/`, [notes](course.md), [a](a.py), ![p](raw/p.png), "
        '<a href="v/report.html"><code>r</code></a>'
    )


def test_a_link_to_no_page_or_to_no_place_is_broken(tmp_path: Path) -> None:
    (tmp_path / "b.html").write_text('<h1 id="top">b</h1>')
    links = ["b.html", "b.html#top", "b.html#none", "c.html", "https://example.org/x", "#here"]
    body = "".join(f'<a href="{link}">x</a>' for link in links)
    (tmp_path / "a.html").write_text(f'<p id="here">{body}</p>')
    assert broken_links(read_pages(tmp_path), tmp_path) == ["a.html: b.html#none", "a.html: c.html"]


def test_the_readme_has_the_errors_of_the_committed_scores(tmp_path: Path) -> None:
    readme = Path(__file__).parents[2] / "README.md"
    assert readme_block() in readme.read_text()
    path = tmp_path / "README.md"
    path.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write_readme(path)
    assert path.read_text() == f"before\n{readme_block()}\nafter\n"


def test_the_picture_of_the_readme_is_what_the_code_makes() -> None:
    assert difference(to_png(two_timelines()), PICTURE.read_bytes()) <= DIFFERENCE_MAX


def test_a_machine_that_was_disturbed_is_called_noisy(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "oisy" not in str(errors_table().headings) + accuracy_tables()
    disturbed = copy.deepcopy(scores())
    disturbed["hardware"][0]["provenance"]["machine"][NOISY] = "other work ran beside it"
    monkeypatch.setattr("docs.making.accuracy.scores", lambda: disturbed)
    (name,) = [heading for heading in errors_table().headings if "noisy" in heading]
    assert name == f"{disturbed['hardware'][0]['name'].split('-2cpu')[0]} (noisy)"
    assert accuracy_tables().count("Noisy: other work ran beside it.") == 1
