"""Parts of the commands that simulate or measure: the request, the work, its delivery."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import typer

from ..calibration.profiles.choosing import default_choice, find_profile
from ..calibration.profiles.cost_profile import Profile
from ..calibration.profiles.hardware_change import CHANGED_FROM, HardwareChange, changed
from ..calibration.running.compiling import Side, compile_engines
from ..calibration.running.preparation import check_mechanisms, profile_of, with_engine
from ..models.catalogue import CATALOGUE, MECHANISMS, named
from ..scenario.cpus import cpus_in_vain, is_of_unused_cpus, threads_of
from ..scenario.errors import ScenarioError, UserError, one_of
from ..scenario.examples import scenario_path
from ..scenario.quantities import BANDWIDTH, DURATION, QuantityError, parse_share
from ..scenario.scenario import Scenario
from ..sim.engine.workers import workers_for
from ..sim.files.parallel import cpu_count
from ..sim.files.whole_files import to_json, write_json, write_whole
from ..store.cluster import cluster
from ..store.work import Progress
from ..studies.factors import MECHANISM, PROFILE, Value, check_field, read_factor
from .door import Bar, Stopped, compiling, keeping, notes, people, progress_bar
from .options import Changes, Hardware, Place, Study, Wanted
from .rendering import print_warnings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..calibration.measure.campaign import CampaignSummary
    from ..store.store import Store


class Asked(NamedTuple):
    """A scenario and its profile, with changes of the hardware; and why this profile."""

    scenario: Scenario
    profile: Profile
    why: str


_AS_IT_IS = Hardware()


class Where(NamedTuple):
    """Where runs are simulated and kept."""

    executor: Executor | None
    store: Store | None
    bar: Bar

    def progress(self, now: Progress) -> None:
        """Show how far a study is."""
        self.bar(*now)


class _Answer(Protocol):
    def to_dict(self) -> dict[str, Any]: ...

    def plot(self) -> Any: ...

    @property
    def warnings(self) -> Sequence[str]: ...


def asked_of(
    name: str, changes: Changes, hardware: Hardware = _AS_IT_IS, *, engine: str | None = None
) -> Asked:
    """Return the scenario in a file, or the example of that name, and its profile.

    Raises
    ------
    UserError
        If one of them does not exist, or an option is out of its range.
    """
    return on_hardware(scenario_asked(name, changes, engine=engine), hardware, changes.profile)


def on_hardware(scenario: Scenario, hardware: Hardware, profile: str | None) -> Asked:
    """Return *scenario* and its *profile*, or its own, on that *hardware*.

    Raises
    ------
    UserError
        As of `asked_of`.
    """
    if hardware.cpus is not None:
        with _blamed_on("--cpus", "machine.cpus"):
            scenario = scenario.with_values(machine={"cpus": hardware.cpus})
        if cpus_in_vain(scenario):
            threads = threads_of(scenario)
            raise UserError(
                f"--cpus: must be at most {threads}, the threads of the {scenario.machine.role} "
                f"(server.workers), as another CPU would run nothing, got {hardware.cpus}"
            )
    if hardware.link is not None:
        quantity("--link", BANDWIDTH.parse, hardware.link)
        with _blamed_on("--link", "network.up", "network.down"):
            scenario = scenario.with_values(network={"up": hardware.link, "down": hardware.link})
    crossing_ns = None
    if hardware.crossing is not None:
        crossing_ns = float(quantity("--crossing", DURATION.parse, hardware.crossing))
    change = HardwareChange(1.0 if hardware.clock is None else hardware.clock, crossing_ns)
    known = profile_of(scenario) if profile is None else find_profile(profile)
    why = _why_profile(scenario, profile)
    return Asked(scenario, known if change.is_none else changed(known, change), why)


@contextlib.contextmanager
def _blamed_on(option: str, *keys: str) -> Iterator[None]:
    """Name the *option* that sets *keys*, in place of file and key, in mistakes about them."""
    try:
        yield
    except ScenarioError as error:
        found = []
        for mistake, told in zip(error.mistakes, error.rules, strict=True):
            key, _, rule = told.partition(": ")
            found.append(f"{option}: {rule}" if key in keys else mistake)
        raise UserError(*dict.fromkeys(found)) from None


def _why_profile(scenario: Scenario, name: str | None) -> str:
    """Return in a few words where the profile's name comes from."""
    if name is not None:
        return "named by --profile"
    return default_choice().why if scenario.machine.profile is None else "named by the scenario"


def note_profile(asked: Asked, vary: Sequence[str] | None = None) -> None:
    """Print which profile is used, and why, unless *vary* varies it."""
    if not _varies_profile(vary):
        notes().print(profile_text(asked), markup=False, soft_wrap=True)


def profile_text(asked: Asked) -> str:
    """Return which profile is used, and why."""
    return f"profile {asked.profile.name} ({asked.why})"


def _varies_profile(vary: Sequence[str] | None) -> bool:
    return any(read_factor(each).field == PROFILE for each in vary or [])


def with_replications(asked: Asked, n: int | None, within: str | None = None) -> Asked:
    """Return what is *asked* with *n* replications; None: the scenario's number.

    Raises
    ------
    UserError
        If --within sets the number, too.
    """
    if n is None:
        return asked
    if within is not None:
        raise UserError(f"--replications: must be absent with --within, which adds runs, got {n}")
    return asked._replace(scenario=asked.scenario.with_values(run={"replications": n}))


def study_of(name: str, study: Study) -> Asked:
    """Return what `asked_of` returns for the options of a *study*."""
    return asked_of(name, study.changes, study.hardware, engine=study.engine)


def scenario_asked(name: str, changes: Changes, *, engine: str | None = None) -> Scenario:
    """Return the scenario that is asked for; print which of its settings have no effect.

    Raises
    ------
    UserError
        If there is none of that name, or an option is out of its range.
    """
    scenario = with_engine(Scenario.read(scenario_path(name)), engine)
    if changes.mechanism is not None:
        if "," in changes.mechanism:
            raise UserError(
                f"--mechanism: must be one mechanism, got {changes.mechanism}; "
                f"`dispatchsim compare {name} --mechanisms {changes.mechanism}` takes several"
            )
        check_mechanisms([changes.mechanism], "--mechanism")
    scenario = with_settings(scenario, changes.settings, changes.mechanism)
    note_aliases([scenario.alias])
    for key, what in scenario.server.ignored:
        notes().print(f"server.{key} is {what}: {scenario.server.mechanism} ignores it")
    return scenario


def note_aliases(called: Iterable[str]) -> None:
    """Print the mechanism of each name in *called* that is an alias."""
    for name in called:
        if named(name) != name:
            about = CATALOGUE[named(name)].about.removesuffix(".")
            notes().print(
                f'mechanism "{name}" is {named(name)}: {about}', markup=False, soft_wrap=True
            )


def with_settings(
    scenario: Scenario, settings: Sequence[str] | None, mechanism: str | None = None
) -> Scenario:
    """Return *scenario* with the *settings* that --set gives: "load.rate=5000/s".

    "load.timeout=" removes the key: its default holds again. All settings, and the *mechanism* of
    --mechanism, are applied at once: their order has no effect.

    Raises
    ------
    UserError
        If one has no field, has several values, or breaks a rule.
    ScenarioError
        If the scenario's file has a value that breaks a rule beside them.
    """
    sections: dict[str, dict[str, Value | None]] = {}
    mistakes: list[str] = []
    for text in settings or []:
        try:
            if (field := _taken_away(text)) is not None:
                section, key = field.split(".")
                sections.setdefault(section, {})[key] = None
                continue
            factor = read_factor(text, "--set")
        except UserError as error:
            mistakes += error.mistakes
            continue
        if len(factor.values) != 1:
            mistakes.append(
                f"--set {factor.field}: must be one value, got {len(factor.values)} values"
            )
            continue
        sections.setdefault(factor.section, {})[factor.key] = factor.values[0]
        note_aliases(_mechanisms_in(text))
    given = {f"{section}.{key}" for section, keys in sections.items() for key in keys}
    if mechanism is not None:
        if named(str(sections.get("server", {}).get("mechanism", mechanism))) != named(mechanism):
            raise UserError(f"--mechanism: must be absent with --set {MECHANISM}, got {mechanism}")
        sections.setdefault("server", {})["mechanism"] = mechanism
    try:
        changed_scenario = scenario.with_values(**sections) if sections else scenario
    except ScenarioError as error:
        is_given = [rule.partition(":")[0] in given for rule in error.rules]
        if not mistakes and not any(is_given):
            raise
        mistakes += [
            f"--set {_of_set(rule)}" if is_set else each
            for each, rule, is_set in zip(error.mistakes, error.rules, is_given, strict=True)
        ]
    if mistakes:
        raise UserError(*mistakes)
    return changed_scenario


def _of_set(rule: str) -> str:
    """Return the *rule* of a field that --set sets; one without a default cannot be removed."""
    field, missing, rest = rule.partition(": is missing")
    if not missing:
        return rule
    choices, _, why = rest.partition(", and ")
    return f"{field}: must have a value, as {why or 'it has no default'}{choices}"


def _taken_away(text: str) -> str | None:
    """Return the field that "load.timeout=" removes; None if *text* has a value, or no field.

    Raises
    ------
    UserError
        If there is no such field, or it cannot be set.
    """
    field, equals, value = (part.strip() for part in text.partition("="))
    if not equals or value or not field:
        return None
    check_field(field, "--set")
    return field


def quantity(option: str, parse: Callable[[object], Any], text: str) -> Any:
    """Return what *parse* makes of *text*.

    Raises
    ------
    UserError
        With *option*, the rule and the value.
    """
    try:
        return parse(text)
    except QuantityError as error:
        raise UserError(f"{option}: {error}") from None


@contextlib.contextmanager
def working(
    what: str,
    asked: Asked,
    place: Place,
    mechanisms: Sequence[str] = (),
    *,
    folder: Path | None = None,
    output: Path | None = None,
    hint: str = "",
    workers: Callable[[], int] | None = None,
) -> Iterator[Where]:
    """Yield where runs of what is *asked* are simulated and kept; on Ctrl-C report what is kept.

    Parameters
    ----------
    what:
        Name of the work, beside its bar.
    mechanisms:
        Mechanisms whose engines are compiled; none: the scenario's.
    folder:
        Folder of the store; None: there is no store.
    output, hint:
        As for `keeping`, if there is no store.
    workers:
        Number of workers, called once engines are compiled; None: that of *place*.
    """
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(keeping(output, hint=hint))
            store = None if folder is None else stack.enter_context(_opened(folder))
            executor: Executor | None
            if place.cluster_address is not None:
                executor = stack.enter_context(cluster(place.cluster_address))
            else:
                # Before workers are chosen: threads are of no use to the reference engine, which
                # is what runs take if the compiler fails.
                engine = asked.scenario.run.engine
                names = [name for name in mechanisms if name in MECHANISMS]
                names = names or [asked.scenario.server.mechanism]
                side = Side.of(asked.scenario)
                compile_engines(names, asked.profile, side=side, engine=engine, telling=compiling)
                n_workers = workers() if workers else place.workers or cpu_count()
                executor = stack.enter_context(workers_for(engine, n_workers))
            yield Where(executor, store, stack.enter_context(progress_bar(what)))
    except Stopped:
        if folder is None:
            raise
        raise Stopped(f"finished runs are in {folder}: the same command resumes") from None


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[Store]:
    """Yield the store in *folder*; report at the end which files could not be read."""
    from ..store.store import QuarantineWarning, Store

    store = Store(writable(folder))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", QuarantineWarning)  # reported below
            yield store
    finally:
        for each in store.quarantined:
            notes().print(
                f"{each.path}: could not be read; its runs are simulated again", markup=False
            )


def varied_mechanisms(vary: Sequence[str] | None) -> list[str]:
    """Return the mechanisms that are varied."""
    note_aliases(name for each in vary or [] for name in _mechanisms_in(each))
    factors = [read_factor(each) for each in vary or []]
    return [str(value) for f in factors if f.field == MECHANISM for value in f.values]


def _mechanisms_in(text: str) -> list[str]:
    """Return the names of mechanisms in a value of --set or --vary, as they were typed."""
    field, _, names = text.partition("=")
    return [name.strip() for name in names.split(",")] if field.strip() == MECHANISM else []


def writable(folder: Path, option: str = "--store") -> Path:
    """Return *folder* if results can be written to it; called before they are computed.

    Raises
    ------
    UserError
        With the *option* that names it, if they cannot.
    """
    place = folder
    while not place.exists():
        place = place.parent
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise UserError(f"{option}: must be a writable folder, got {folder}")
    return folder


def deliver(answer: _Answer, show: Callable[[], None], wanted: Wanted) -> None:
    """Print and write an answer in the requested forms."""
    # Printed first: if a file cannot be written, the answer is not lost.
    if wanted.as_json:
        typer.echo(to_json(answer.to_dict()))
    else:
        verbose = wanted.verbose
        first = [each for each in answer.warnings if is_of_unused_cpus(each)]
        rest = [each for each in answer.warnings if each not in first]
        is_cut = print_warnings(people(), first, verbose=verbose)
        show()
        if print_warnings(people(), rest, verbose=verbose) or is_cut:
            notes().print("--verbose prints warnings in full")
    if wanted.output is not None:
        write_json(wanted.output, answer.to_dict())
    if wanted.plot is not None:
        save_plot(wanted.plot, answer.plot())


def save_plot(plot: Path, drawn: Figure) -> None:
    """Write a picture in the format of the file's name: PNG, SVG or PDF; equal each time."""
    from ..validation.drawing.figures import to_pdf, to_png, to_svg

    if plot.suffix == ".svg":
        write_whole(plot, to_svg(drawn, plot.stem))
    else:
        write_whole(plot, to_png(drawn) if plot.suffix == ".png" else to_pdf(drawn))


def check_wanted(wanted: Wanted) -> None:
    """Refuse, before anything is simulated, files that the answer cannot be written to.

    Raises
    ------
    UserError
        As of `check_plot` and `check_folder`.
    """
    check_plot(wanted.plot)
    if wanted.output is not None:
        check_folder("--output", wanted.output)


def check_plot(plot: Path | None) -> None:
    """Refuse, before anything is simulated, a file that no picture can be written to.

    Raises
    ------
    UserError
        If the file's name does not end in .png, .svg or .pdf, or its folder does not exist.
    """
    if plot is None:
        return
    if plot.suffix not in (".png", ".svg", ".pdf"):
        raise UserError(f"--plot: must end in .png, .svg or .pdf, got {plot}")
    check_folder("--plot", plot)


def check_vary(vary: Sequence[str] | None) -> None:
    """Refuse a study of no field before anything is compiled.

    Raises
    ------
    UserError
        If *vary* is empty.
    """
    if not vary:
        raise UserError(
            "--vary: must be given, such as --vary load.rate=1000/s..8000/s:8 "
            "or --vary server.mechanism=poll,epoll_level"
        )


def check_folder(option: str, path: Path) -> None:
    """Refuse, before anything is simulated, a folder, or a file in no existing folder.

    Raises
    ------
    UserError
        With the *option* that names it.
    """
    if path.is_dir():
        raise UserError(f"{option}: must be a file, got the folder {path}")
    if not path.parent.is_dir():
        raise UserError(f"{option}: must be in an existing folder, got {path}")


def check_new_folder(path: Path) -> None:
    """Refuse a folder with files in it: results of two runs must not mix.

    Raises
    ------
    UserError
        If *path* is a file or a folder that is not empty.
    """
    if path.exists() and not path.is_dir():
        raise UserError(f"--output: must be a folder, got the file {path}")
    if path.is_dir() and any(path.iterdir()):
        raise UserError(f"--output: must be a new or an empty folder, got {path} with files in it")


def check_measured(folder: Path, *names: str) -> None:
    """Refuse a *folder* that lacks one of the files *names*, which a measurement writes.

    Raises
    ------
    UserError
        With the missing file.
    """
    if not folder.is_dir():
        raise UserError(
            f"FOLDER: must be an existing folder with measured runs "
            f'(`dispatchsim measure machine` makes one), got "{folder}"'
        )
    for name in names:
        path = folder / name
        if not path.is_file() or path.stat().st_size == 0:
            if others := sorted(found.parent.name for found in folder.glob(f"*/{name}")):
                raise UserError(
                    f"{path}: the file is missing or empty: {folder} has such files in its "
                    f"folders: {', '.join(others)}"
                )
            kind = f" {path.stem}" if path.stem in ("micro", "fit", "heldout") else ""
            command = f"dispatchsim measure machine{kind} --output {folder}"
            raise UserError(f"{path}: the file is missing or empty; `{command}` writes it")


def check_known(option: str, name: str, known: Iterable[str]) -> None:
    """Refuse a *name* that is not among the *known* ones.

    Raises
    ------
    UserError
        With the *option* of the name, and the nearest known name.
    """
    names = list(known)
    if name not in names:
        raise UserError(f'{option}: {one_of(name, names)}, got "{name}"')


def share_of(
    text: str | None, option: str = "--within", rule: str = "a share such as 10% or 0.1"
) -> float | None:
    """Return the share in a text such as "10%" or "0.1".

    Raises
    ------
    UserError
        If it is not between 0 and 100%.
    """
    if text is None:
        return None
    try:
        share = parse_share(text.strip())
    except QuantityError:
        share = -1.0
    if not 0 < share < 1:
        raise UserError(f"{option}: must be {rule}, got {text}")
    return share


def forced(asked: Asked, profile: str | None, vary: Sequence[str] | None) -> Profile | None:
    """Return the profile of all points; None if profiles are varied.

    Raises
    ------
    UserError
        If an option sets a profile or other hardware, too.
    """
    if not _varies_profile(vary):
        return asked.profile
    if profile is not None or CHANGED_FROM in asked.profile.machine:
        raise UserError(f"--profile, --clock, --crossing: must be absent with --vary {PROFILE}")
    return None


@contextlib.contextmanager
def building() -> Iterator[Callable[[str, int, int], None]]:
    """Yield a progress bar of a kernel's build; report what a stopped build leaves.

    Raises
    ------
    Stopped
        On Ctrl-C.
    """
    from ..calibration.emulated.kernel_build import UnfinishedBuild
    from ..calibration.measure.campaign_progress import building_bar

    try:
        with building_bar(notes()) as progress:
            yield progress
    except UnfinishedBuild as stop:
        raise Stopped(str(stop)) from None


def conclude(summary: CampaignSummary, folder: Path, name: str = "") -> None:
    """Print how a measurement into *folder* ended; with the server's *name* if there are several.

    Raises
    ------
    Stopped
        If it was interrupted.
    """
    from ..calibration.measure.campaign_progress import summary_text

    people().print(f"{name}: {summary_text(summary)}".removeprefix(": "), markup=False)
    if summary.interrupted:
        raise Stopped(f"finished work is in {folder}; the same command resumes there")
    if not name:
        people().print(f"results are in {folder}", markup=False)
