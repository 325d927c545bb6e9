"""Build the kernel of the emulated target, once for each version of its sources.

    linux-source, kernel.config, patches, compiler ──hash──► ~/.cache/dispatchsim/kernel-HASH/
        vmlinux  System.map  config  target.json  tree/ (for building modules)

It is built in a folder of its own, under a lock, and renamed when complete. A killed or stopped
build leaves nothing that could be mistaken for a kernel, and the next build removes the rest. No
date, user, host or path enters it, so the same packages give the same bytes everywhere.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..testbed.c_build import cache_folder
from ..testbed.machine_facts import version_of
from .kernel_source import (
    KernelSource,
    ProgressCallback,
    TargetError,
    TargetMissingError,
    find_source,
    insert,
    unpack,
)

_NEEDED = re.compile(
    r"Makefile|Kbuild|Kconfig|\.config|Module\.symvers"
    r"|arch/x86/Makefile.*"
    r"|(include|arch/x86/include)/.*"
    r"|(arch/x86|fs|kernel|mm|net|lib)/.*\.h"
    r"|scripts/.*(?<!\.o)(?<!\.cmd)"
    r"|tools/objtool/objtool"
)


def is_needed_by_modules(path: str) -> bool:
    """Return whether modules need the file *path* of a kernel's tree.

    >>> is_needed_by_modules("include/net/sock.h"), is_needed_by_modules("net/core/dev.c")
    (True, False)
    """
    return bool(_NEEDED.fullmatch(path))


def prune_tree(tree: Path) -> None:
    """Remove everything from a built kernel's tree that its modules do not need."""
    for folder, _, names in os.walk(tree, topdown=False):
        for name in names:
            path = Path(folder, name)
            if not is_needed_by_modules(path.relative_to(tree).as_posix()):
                path.unlink()
        if not os.listdir(folder):
            os.rmdir(folder)


CONFIG_FRAGMENT = Path(__file__).resolve().parent / "kernel.config"
_FORMAT = 1  # of the folder in the cache: a change here rebuilds everything
_JOBS = 2
_LOG_LINES = 1_200  # approximate output of make; only for the progress bar
_PACKAGES = {
    "gcc": "gcc", "make": "make", "ld": "binutils", "flex": "flex", "bison": "bison", "bc": "bc",
}  # fmt: skip

# The one change to Linux itself: (file, old text, new text). The CPU's timer counts nanoseconds.
# Linux measures that only approximately, in busy loops of 0.2 s, which take a quarter of a minute
# of the host at every start.
_EDITS = (
    (
        "arch/x86/kernel/apic/apic.c",
        "unsigned int lapic_timer_period = 0;",
        "unsigned int lapic_timer_period = 1000000000 / HZ;",
    ),
)

# The place and time of the build must not enter it.
BUILD_ENVIRONMENT = {
    "KBUILD_BUILD_TIMESTAMP": "2000-01-01",
    "KBUILD_BUILD_USER": "dispatchsim",
    "KBUILD_BUILD_HOST": "counted",
    "KBUILD_BUILD_VERSION": "1",
    "LC_ALL": "C",
}


class UnfinishedBuild(KeyboardInterrupt):
    """Ctrl-C while the kernel was being built; the message explains what happens next."""


@dataclass(frozen=True)
class Kernel:
    """A built kernel: its name, the file to start, and the tree for building modules."""

    id: str
    image: Path
    system_map: Path
    config: Path
    tree: Path

    @classmethod
    def in_folder(cls, folder: Path) -> Kernel:
        """Return the kernel in *folder*, made by a build."""
        return cls(
            id=str(json.loads((folder / "target.json").read_text())["id"]),
            image=folder / "vmlinux",
            system_map=folder / "System.map",
            config=folder / "config",
            tree=folder / "tree",
        )


def silent(_doing: str, _done: int, _total: int) -> None:
    """Show no progress."""


def kernel(*, patches: Sequence[Path] = (), progress: ProgressCallback = silent) -> Kernel:
    """Return the kernel of the target; if this version is missing, build it (minutes).

    Parameters
    ----------
    patches
        Files of insertions (kernel_source.py), in this order.
    progress
        Called with the current activity, the steps done and the number of steps.

    Raises
    ------
    TargetMissingError
        If the sources or a program to build them are not installed.
    TargetError
        If the kernel does not build.
    UnfinishedBuild
        On Ctrl-C while it is being built.
    """
    source = find_source()
    check_tools()
    identity = identity_of(source, patches)
    folder = cache_folder() / identity["id"]
    if not (folder / "target.json").is_file():
        with _locked(folder.with_suffix(".lock"), progress):
            if not (folder / "target.json").is_file():
                _build(source, patches, identity, folder, progress)
    return Kernel.in_folder(folder)


def built_kernel(*, patches: Sequence[Path] = ()) -> Kernel | None:
    """Return the kernel of the target, or None if this version was not built yet.

    Raises
    ------
    TargetMissingError
        If the sources are not installed: they decide the version.
    """
    folder = cache_folder() / identity_of(find_source(), patches)["id"]
    return Kernel.in_folder(folder) if (folder / "target.json").is_file() else None


def check_tools() -> None:
    """Raise `TargetMissingError` if a program that builds the kernel is not installed."""
    missing = [package for tool, package in _PACKAGES.items() if shutil.which(tool) is None]
    if not missing and not _has_header("gelf.h"):
        missing.append("libelf-dev")
    if missing:
        raise TargetMissingError(
            "the kernel of the emulated target cannot be built without "
            f"{', '.join(missing)}: apt-get install {' '.join(missing)}"
        )


def _has_header(name: str) -> bool:
    finished = subprocess.run(
        ["gcc", "-E", "-"], input=f"#include <{name}>".encode(), capture_output=True,
        timeout=60, check=False,
    )  # fmt: skip
    return finished.returncode == 0


def identity_of(source: KernelSource, patches: Sequence[Path]) -> dict[str, str]:
    """Return the facts that determine a kernel, and its name: the content of `target.json`."""
    facts = {
        "linux_source": source.version,
        "config_fragment": _digest(CONFIG_FRAGMENT.read_bytes()),
        "edits": _digest(repr(_EDITS).encode()),
        "patches": " ".join(f"{path.name}:{_digest(path.read_bytes())}" for path in patches),
        "gcc": version_of("gcc"),
        "ld": version_of("ld"),
        "layout": str(_FORMAT),
    }
    name = f"kernel-{_digest(json.dumps(facts, sort_keys=True).encode())}"
    return {"format": "dispatchsim-kernel/1", "id": name, **facts}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


@contextlib.contextmanager
def _locked(path: Path, progress: ProgressCallback) -> Iterator[None]:
    """Hold the lock of one version of the kernel; a dying process releases it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("waiting for another process to build the kernel", 0, 1)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(
    source: KernelSource,
    patches: Sequence[Path],
    identity: Mapping[str, str],
    folder: Path,
    progress: ProgressCallback,
) -> None:
    """Build everything beside *folder* and move it into place."""
    prefix = f"building-{folder.name}-"
    for stale in folder.parent.glob(f"{prefix}*"):  # from a killed build: we hold the lock
        progress("removing an unfinished build", 0, 1)
        shutil.rmtree(stale, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(dir=folder.parent, prefix=prefix))
    try:
        _build_in(scratch / "kernel", source, patches, progress)
        (scratch / "kernel" / "target.json").write_text(json.dumps(identity, indent=2) + "\n")
        (scratch / "kernel").rename(folder)
    except KeyboardInterrupt:
        # Removing it takes up to ten seconds, but Ctrl-C must end the program soon.
        raise UnfinishedBuild(
            f"the kernel was not finished: the next run removes the incomplete files in "
            f"{folder.parent} and starts again"
        ) from None
    except BaseException:
        progress("removing the unfinished build", 0, 1)
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    scratch.rmdir()


def _build_in(
    scratch: Path, source: KernelSource, patches: Sequence[Path], progress: ProgressCallback
) -> None:
    """Build everything in the new folder *scratch*."""
    tree = scratch / "tree"
    tree.mkdir(parents=True)
    unpack(source, tree, progress)
    for edit in _EDITS:
        _edit(tree, *edit)
    for patch in patches:
        insert(patch, tree)
    _configure(tree, progress)
    _make(tree, ["vmlinux", "modules"], "building Linux", progress)
    shutil.copyfile(tree / "vmlinux", scratch / "vmlinux")
    shutil.copyfile(tree / "System.map", scratch / "System.map")
    shutil.copyfile(tree / ".config", scratch / "config")
    progress("cleaning up", 0, 1)
    prune_tree(tree)


def _edit(tree: Path, name: str, old: str, new: str) -> None:
    text = (tree / name).read_text()
    if text.count(old) != 1:
        raise TargetError(f"{name} of Linux must hold {old!r} once, got {text.count(old)}")
    (tree / name).write_text(text.replace(old, new))


def _configure(tree: Path, progress: ProgressCallback) -> None:
    """Apply the fragment to `tinyconfig`, and check that no line of it was overruled."""
    progress("configuring Linux", 0, 1)
    _make(tree, ["tinyconfig"], "configuring Linux", silent)
    with (tree / ".config").open("a") as config:
        config.write(CONFIG_FRAGMENT.read_text())  # the last value of an option counts
    _make(tree, ["olddefconfig"], "configuring Linux", silent)
    wrong = overruled(CONFIG_FRAGMENT.read_text(), (tree / ".config").read_text())
    if wrong:
        raise TargetError(
            f"{len(wrong)} lines of {CONFIG_FRAGMENT.name} had no effect, first: {wrong[0]}"
        )


def overruled(fragment: str, config: str) -> list[str]:
    r"""Return the lines of a fragment that a configuration does not contain.

    >>> overruled("CONFIG_A=y\n# CONFIG_B is not set\n", "CONFIG_A=y\nCONFIG_B=y\n")
    ['# CONFIG_B is not set']
    """
    have = _options(config)
    return [
        f"CONFIG_{name}={value}" if value else f"# CONFIG_{name} is not set"
        for name, value in _options(fragment).items()
        if have.get(name, "") != value
    ]


def _options(text: str) -> dict[str, str]:
    """Return the options of a configuration; an option that is not set has an empty text."""
    options = {}
    for line in text.splitlines():
        if line.startswith("CONFIG_"):
            name, _, value = line.removeprefix("CONFIG_").partition("=")
            options[name] = "" if value == "n" else value
        elif line.startswith("# CONFIG_") and line.endswith(" is not set"):
            options[line.removeprefix("# CONFIG_").removesuffix(" is not set")] = ""
    return options


def run_make(
    arguments: Sequence[str], doing: str, progress: ProgressCallback, lines: int = _LOG_LINES
) -> None:
    """Run make in a session of its own, count its output, and end it when this process ends.

    Its output goes through a pipe, so that SIGPIPE ends make if this process is killed.
    """
    process = subprocess.Popen(
        ["make", f"-j{_JOBS}", *arguments],
        env={**os.environ, **BUILD_ENVIRONMENT},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    last_lines: list[str] = []
    assert process.stdout is not None
    try:
        for number, line in enumerate(process.stdout):
            last_lines = [*last_lines[-50:], line.rstrip()]
            progress(doing, number, max(number, lines))
        process.wait()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        process.stdout.close()
    if process.returncode != 0:
        errors = [line for line in last_lines if "error" in line.lower()] or last_lines
        raise TargetError(f"{doing} failed: {errors[0] if errors else 'make printed nothing'}")


def _make(tree: Path, targets: Sequence[str], doing: str, progress: ProgressCallback) -> None:
    run_make(["-C", str(tree), *targets], doing, progress)


WIRE_FOLDER = Path(__file__).resolve().parent / "wire"
_MODULE_SOURCES = ("Kbuild", "Makefile", "*.c", "*.h", "*.S")
_MODULE_LOG_LINES = 10


def build_module(folder: Path, kernel: Kernel) -> Path:
    """Return the module that the Kbuild file of *folder* describes, built if necessary.

    It is stored in the cache beside the kernel, under a hash of its sources.

    Raises
    ------
    TargetError
        If a source does not compile, or the number of modules is not one.
    """
    sources = sorted({path for pattern in _MODULE_SOURCES for path in folder.glob(pattern)})
    digest = hashlib.sha256()
    for path in sources:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    kept = kernel.tree.parent / "modules" / digest.hexdigest()[:12]
    if not kept.is_dir():
        kept.parent.mkdir(exist_ok=True)
        _build_module_into(kept, folder.name, sources, kernel)
    (module,) = kept.glob("*.ko")
    return module


def _build_module_into(kept: Path, name: str, sources: list[Path], kernel: Kernel) -> None:
    with tempfile.TemporaryDirectory(dir=kept.parent, prefix="building-") as scratch_name:
        scratch = Path(scratch_name, name)
        scratch.mkdir()
        for path in sources:
            shutil.copyfile(path, scratch / path.name)
        arguments = ["-C", str(kernel.tree), f"M={scratch}", "modules"]
        # The scratch folder's name must not enter the module.
        arguments.append(f"KCFLAGS=-ffile-prefix-map={scratch}=.")
        run_make(arguments, f"building the module {name}", silent, _MODULE_LOG_LINES)
        modules = list(scratch.glob("*.ko"))
        if len(modules) != 1:
            raise TargetError(f"{name} must describe one module, got {len(modules)}")
        finished = Path(scratch_name, "finished")
        finished.mkdir()
        shutil.copyfile(modules[0], finished / modules[0].name)
        try:
            os.rename(finished, kept)
        except OSError:
            if not kept.is_dir():  # or another process has made it meanwhile
                raise
