"""The notebooks of the course: ten lessons of one shape, without logic and without outputs."""

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

from dispatchsim import course

FOLDER = Path(__file__).parents[3] / "notebooks"
LESSONS = sorted(FOLDER.glob("*.ipynb"))
OWN = "own-mechanism"
"""The tag of a cell in which the student writes a server, or a mechanism."""
LOGIC = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda),
    *(ast.For, ast.While, ast.If, ast.IfExp, ast.Try, ast.With, ast.Match),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)


def cells(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["cells"]
    return found


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def code(path: Path) -> list[dict[str, Any]]:
    return [cell for cell in cells(path) if cell["cell_type"] == "code"]


def text(path: Path) -> str:
    return "\n\n".join(source(cell) for cell in cells(path) if cell["cell_type"] == "markdown")


def test_there_is_a_notebook_for_each_lesson() -> None:
    assert [path.name[:2] for path in LESSONS] == [
        f"{number:02}" for number in range(1, len(course.LESSONS) + 1)
    ]
    for path, module in zip(LESSONS, course.LESSONS, strict=True):
        assert any(f"course.{module}." in source(cell) for cell in code(path)), path.name


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
class TestLesson:
    def test_it_stores_no_output_and_has_stable_ids(self, path: Path) -> None:
        assert all(not cell["outputs"] and cell["execution_count"] is None for cell in code(path))
        ids = [cell["id"] for cell in cells(path)]
        assert len(set(ids)) == len(ids)
        assert all(re.fullmatch(r"[a-z0-9-]+", each) for each in ids)

    def test_it_has_no_logic_but_what_the_student_writes(self, path: Path) -> None:
        for cell in code(path):
            if OWN not in cell["metadata"].get("tags", []):
                found = [n for n in ast.walk(ast.parse(source(cell))) if isinstance(n, LOGIC)]
                assert not found, f"{cell['id']}: {ast.unparse(found[0])}"

    def test_it_asks_and_has_a_prediction_before_any_run(self, path: Path) -> None:
        assert 15 <= len(cells(path)) <= 25
        title = source(cells(path)[0]).splitlines()[0]
        assert re.fullmatch(r"# \d+\. .+\?", title)
        sources = [source(cell) for cell in code(path)]
        assert "import" in sources[0]
        assert "course.predict(" in sources[1]
        n_predicted = sum(each.count("course.predict(") for each in sources)
        assert n_predicted >= 2
        assert sum(each.count(".beside(") for each in sources) == n_predicted

    def test_the_student_writes_each_prediction(self, path: Path) -> None:
        calls = [
            node
            for cell in code(path)
            for node in ast.walk(ast.parse(source(cell)))
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "course.predict"
        ]
        assert [ast.unparse(call.args[1]) for call in calls] == ["None"] * len(calls)

    def test_it_has_exercises_with_answers_folded_away(self, path: Path) -> None:
        ids = [cell["id"] for cell in cells(path)]
        answered = [each for each in ids if re.fullmatch(r"exercise-\d+-answer", each)]
        assert len(answered) >= 2
        for each in answered:
            place = ids.index(each)
            # The exercise, a cell to try it in, the answer.
            assert ids[place - 2 : place] == [each[:-7], f"{each[:-7]}-try"]
            assert ".answer_" in source(cells(path)[place])

    def test_its_links_lead_on(self, path: Path) -> None:
        links = [link for link in re.findall(r"\]\(([^)]+)\)", text(path)) if "://" not in link]
        assert [link for link in links if not (FOLDER / link).exists()] == []
        place = LESSONS.index(path)
        following = LESSONS[place + 1].name if place + 1 < len(LESSONS) else "README.md"
        assert following in source(cells(path)[-1])


def test_the_student_writes_a_server_and_a_mechanism() -> None:
    own = [
        source(cell)
        for path in LESSONS
        for cell in code(path)
        if OWN in cell["metadata"].get("tags", [])
    ]
    assert any("simpy.Environment()" in each for each in own)
    assert any("course.own_mechanism(" in each for each in own)
    assert all(len(each.splitlines()) <= 25 for each in own)


def test_the_list_of_lessons_has_their_titles() -> None:
    listed = (FOLDER / "README.md").read_text()
    for path in LESSONS:
        title = source(cells(path)[0]).splitlines()[0].split(". ", 1)[1]
        assert f"[{title}]({path.name})" in listed
