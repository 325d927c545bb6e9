"""The commands of a page: executed by the directive `command`, or parsed where they take hours.

    ```{command}
    dispatchsim run poll_10k_idle      ──run in the page's own folder──►  its output
    ```
    ```{command}
    :takes: 45 minutes
    dispatchsim measure machine        ──parsed only, because of :takes:
    ```

The command is the content of the directive, which forges show; they hide arguments.

Commands of a page run in order, in one folder that is empty at first, so that a command may read
files of an earlier one. A command that fails, or that does not parse, fails the build.
If the configuration has `command_pages`, commands of other pages are parsed only.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import typer
from docutils import nodes  # type: ignore[import-untyped]
from docutils.parsers.rst import directives  # type: ignore[import-untyped]
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from dispatchsim.command_line.app import app
from dispatchsim.scenario.errors import UserError

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
_INDENTED = re.compile(r"^    (dispatchsim .*)$", re.M)
_INLINE = re.compile(r"`(dispatchsim\s[^`]*)`")


def check_command(words: Sequence[str]) -> None:
    """Check that *words*, which begin with `dispatchsim`, are a command with its options.

    Raises
    ------
    UserError
        If there is no such command or option, or a value is not of its kind.
    """
    command: Any = typer.main.get_command(app)
    rest = list(words[1:])
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        name, *rest = rest
        if name not in command.commands:
            raise UserError(f"{shlex.join(words)}: no command is called {name}")
        context = command.make_context(words[0], [], resilient_parsing=True)
        command = command.resolve_command(context, [name])[1]
    _parse(command, words, rest)


def _parse(command: Any, words: Sequence[str], rest: list[str]) -> None:
    try:
        command.make_context(words[1], rest)
    except typer.Exit:
        return  # --help and the like
    except Exception as error:
        if not hasattr(error, "format_message"):  # of Typer's parser, whichever it brings along
            raise
        raise UserError(f"{shlex.join(words)}: {error.format_message()}") from None


def commands_in(text: str) -> list[str]:
    r"""Return the commands of dispatchsim in a page: indented, fenced or in the running text.

    >>> commands_in("Ask `dispatchsim run x`:\n\n    dispatchsim sweep x # all of it\n")
    ['dispatchsim sweep x', 'dispatchsim run x']
    """
    fenced = [
        line
        for language, block in _FENCE.findall(text)
        if language in ("", "sh", "bash", "console")
        for line in block.splitlines()
        if line.startswith("dispatchsim ")
    ]
    running = _FENCE.sub("", text)
    indented = _INDENTED.findall(running)
    inline = [" ".join(found.split()) for found in _INLINE.findall(running)]
    return [_without_comment(command) for command in (*indented, *fenced, *inline)]


def _without_comment(command: str) -> str:
    return re.sub(r"\s+# .*$", "", command).strip()


WIDTH = 96
"""Columns of a terminal that a page has room for."""
_SECONDS_MAX = 300.0
_REFUSED = 2  # the exit code of dispatchsim.command_line.door for a refused request


class CommandDirective(SphinxDirective):
    """Run a command of dispatchsim, or a Python file beside the page, and show it with its output.

    Options: `takes` (a time: the command is parsed and not run), `lines` (how many lines of the
    output are shown), `picture` and `alt` (a file that the command wrote, shown below it),
    `refused` (the command must be refused with one sentence, which is shown).
    """

    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {
        "takes": directives.unchanged_required,
        "lines": directives.positive_int,
        "picture": directives.unchanged_required,
        "alt": directives.unchanged_required,
        "refused": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        """Return the command and its output."""
        self.assert_has_content()
        command = " ".join(" ".join(self.content).split())
        words = shlex.split(command)
        if words[0] not in ("dispatchsim", "python"):
            raise self.error(
                f'command: must begin with "dispatchsim" or "python", got "{words[0]}"'
            )
        block = nodes.container(classes=["command"])
        block += _literal(f"$ {command}", "command-line")
        if "takes" in self.options:
            check_command(words)
            block += nodes.paragraph(
                "", f"Takes {self.options['takes']}.", classes=["command-takes"]
            )
            return [block]
        if not self._is_executed():
            if words[0] == "dispatchsim":
                check_command(words)
            return [block]
        kind = "command-refused" if "refused" in self.options else "command-output"
        output = self._output(words)
        if output:
            block += _literal(output, kind)
        if "picture" in self.options:
            block += self._picture(self.options["picture"])
        return [block]

    def _is_executed(self) -> bool:
        pages = self.config.command_pages
        return pages is None or self.env.docname in pages

    def _output(self, words: list[str]) -> str:
        """Run the command in the folder of the page and return what it printed."""
        refused = "refused" in self.options
        folder = folder_of_page(self.env.temp_data)
        if words[0] == "python":
            page = Path(self.env.doc2path(self.env.docname))
            shutil.copyfile(page.with_name(words[1]), folder / words[1])
        done = subprocess.run(
            [sys.executable, *(words[1:] if words[0] == "python" else ["-m", *words])],
            cwd=folder,
            env=os.environ | {"COLUMNS": str(WIDTH), "NO_COLOR": "1", "TERM": "dumb"},
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS_MAX,
        )
        if done.returncode != (_REFUSED if refused else 0):
            raise self.severe(f"{shlex.join(words)}: exit code {done.returncode}: {done.stderr}")
        lines = (done.stderr if refused else done.stdout).rstrip().splitlines()
        shown = self.options.get("lines", len(lines))
        cut = ["..."] if shown < len(lines) else []
        return "\n".join([*(line.rstrip() for line in lines[:shown]), *cut])

    def _picture(self, name: str) -> nodes.image:
        """Return a picture that the command wrote, kept beside the pages."""
        if "alt" not in self.options:
            raise self.error("command: alt must describe the picture")
        kept = f"pictures/{self.env.docname.replace('/', '-')}-{name}"
        target = Path(self.env.srcdir) / kept
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(folder_of_page(self.env.temp_data) / name, target)
        return nodes.image(uri=f"/{kept}", alt=self.options["alt"])


def _literal(text: str, kind: str) -> nodes.literal_block:
    return nodes.literal_block(text, text, language="text", classes=[kind])


def folder_of_page(page: Any) -> Path:
    """Return the folder in which the commands of the page that is being read run."""
    if "command_folder" not in page:
        page["command_folder"] = tempfile.mkdtemp(prefix="dispatchsim-docs-")
    return Path(page["command_folder"])


def _leave_folder(app: Sphinx, _doctree: nodes.document) -> None:
    """Remove the folder of a page that has been read."""
    folder = app.env.temp_data.pop("command_folder", None)
    if folder is not None:
        shutil.rmtree(folder)


def setup(app: Sphinx) -> dict[str, Any]:
    """Add the directive."""
    app.add_config_value("command_pages", None, "env", (list,))
    app.add_directive("command", CommandDirective)
    app.connect("doctree-read", _leave_folder)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
