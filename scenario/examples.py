"""The example scenarios that come with the package."""

from __future__ import annotations

from pathlib import Path

from .errors import ScenarioError, nearest

_FOLDER = Path(__file__).parent / "shipped"


def example_scenarios() -> dict[str, Path]:
    """Return the example scenarios by name, those of the papers last."""
    own, papers = sorted(_FOLDER.glob("*.toml")), sorted(_FOLDER.glob("papers/*.toml"))
    return {path.stem: path for path in (*own, *papers)}


def first_sentence(path: Path) -> str:
    """Return the first sentence of the comment at the head of a scenario file."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return f"{' '.join(lines).split('. ')[0].rstrip('.')}."


def scenario_path(name: str) -> Path:
    """Return the path of the file *name*, or else of the example *name*.

    Raises
    ------
    ScenarioError
        If there is neither.
    """
    path = Path(name)
    examples = example_scenarios()
    if path.exists():
        return path
    if name in examples:
        return examples[name]
    raise ScenarioError(
        f"{name}: no such file or example{nearest(name, examples)}; "
        "`dispatchsim scenarios` lists the examples"
    )
