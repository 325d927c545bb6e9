"""The settings of one run, apart from its trace and its costs."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Annotated, Any, NamedTuple

from .backend_settings import BackendSettings
from .client_classes import ClientClass
from .client_settings import ClientSettings, NetworkSettings
from .family_settings import CompletionSettings, ScanSettings, SignalSettings, ThreadSettings
from .host_gaps import NO_GAPS, HostGaps
from .kernel_settings import KernelSettings, LimitSettings, MachineSettings
from .laws import Laws
from .memory_settings import MemorySettings
from .program_settings import OverloadSettings, ProgramSettings
from .setting import DeclaredSetting, Setting, declared, declared_by_name
from .units import SECOND_NS


class FaultKind(IntEnum):
    """The kinds of faults."""

    STALL = 0  # a CPU does nothing but handle interrupts
    LINK = 1  # the link has another bandwidth
    SIGNALS = 2  # another process holds queued signals
    READING = 3  # some clients do not read


class FloodSettings(NamedTuple):
    """Datagrams that no process reads, in bursts: gap_ns between two bursts (0: no flood).

    With is_poisson the gaps are exponential with that mean. The flood begins at from_ns.
    """

    gap_ns: Annotated[int, Setting(least=0, key=None, left_alone=True)] = 0
    burst: Annotated[int, Setting(least=1, most=10_000)] = 1
    """Datagrams that arrive together in a burst."""
    is_poisson: bool = True
    from_ns: Annotated[int, Setting(least=0, most="1 h", key="at")] = 0
    """Start of the flood."""
    until_ns: Annotated[int, Setting(least=0, key=None)] = 0  # 0: to the end of the run


class Fault(NamedTuple):
    """A fault from at_ns for length_ns.

    value is for a STALL the stalled CPU; for a LINK its bandwidth in bits a second each way (0: no
    limit); for SIGNALS the number that another process holds in addition; for READING the share of
    clients that do not read, in thousandths.
    """

    kind: Annotated[int, Setting(words=FaultKind, key=None)]
    at_ns: Annotated[int, Setting(least=0, most="1 h")]
    """Start of the fault."""
    length_ns: Annotated[int, Setting(least=1, file_least="1 us", most="1 h")]
    """Length of the fault; interrupts prolong a stall by their own time."""
    value: Annotated[int, Setting(least=0, key=None)] = 0


class RunSettings(NamedTuple):
    """All settings of a run, except its trace, costs and mechanism."""

    program: ProgramSettings = ProgramSettings()
    overload: OverloadSettings = OverloadSettings()
    limits: LimitSettings = LimitSettings()
    signals: SignalSettings = SignalSettings()
    blocking: ThreadSettings = ThreadSettings()
    completions: CompletionSettings = CompletionSettings()
    scans: ScanSettings = ScanSettings()
    network: NetworkSettings = NetworkSettings()
    client: ClientSettings = ClientSettings()
    backend: BackendSettings = BackendSettings()
    kernel: KernelSettings = KernelSettings()
    machine: MachineSettings = MachineSettings()
    memory: MemorySettings = MemorySettings()
    flood: FloodSettings = FloodSettings()
    faults: tuple[Fault, ...] = ()
    laws: Laws = Laws()
    server_gaps: HostGaps = NO_GAPS  # of each CPU of the server, each from a different start
    client_gaps: HostGaps = NO_GAPS  # of the clients' CPU, where they share one
    classes: tuple[ClientClass, ...] = ()  # of clients; with users those of the trace
    duration_ns: Annotated[int, Setting(least=1, key=None)] = 2 * SECOND_NS
    warm_up_ns: Annotated[int, Setting(least=0, key=None)] = 0
    sample_every_ns: Annotated[int, Setting(least=0, key=None)] = 10_000_000
    seed: Annotated[int, Setting(least=0, key=None)] = 1


FOR_SERVER = ("program", "overload", "limits", "signals", "blocking", "completions", "scans")
"""Fields of `RunSettings` with the behaviour and limits of the server program."""
_BY_NAME = (*FOR_SERVER, "machine", "kernel", "memory")


class Given(NamedTuple):
    """A setting in one run: its declaration, its value, and the field of its record."""

    declared: DeclaredSetting
    value: Any
    field: str

    @property
    def is_changed(self) -> bool:
        """Whether its value differs from its default."""
        return bool(self.value != self.declared.default)


def given_to_server(settings: RunSettings) -> Iterator[Given]:
    """Yield each setting of the server and its backend, with its value in *settings*."""
    for field in (*FOR_SERVER, "backend"):
        yield from _given(settings, field)


def given(settings: RunSettings, name: str) -> Given:
    """Return the setting *name* of server, clients, network or backend in *settings*."""
    fields = (*FOR_SERVER, "client", "network", "backend")
    field = next(each for each in fields if name in declared_by_name(type(getattr(settings, each))))
    record = getattr(settings, field)
    return Given(declared_by_name(type(record))[name], getattr(record, name), field)


def _given(settings: RunSettings, field: str) -> Iterator[Given]:
    record = getattr(settings, field)
    return (Given(each, getattr(record, each.name), field) for each in declared(type(record)))


def having(settings: RunSettings, **changes: Any) -> RunSettings:
    """Return *settings* with *changes* to the server and its machine, by the settings' own names.

    >>> having(RunSettings(), workers=2, cpus=2).program.workers
    2

    Raises
    ------
    TypeError
        For a name that is of none of their records.
    """
    for name, value in changes.items():
        field = next((field for field in _BY_NAME if hasattr(getattr(settings, field), name)), None)
        if field is None:
            raise TypeError(f"{name} must be a setting of the server or its machine")
        record = getattr(settings, field)._replace(**{name: value})
        settings = settings._replace(**{field: record})
    return settings
