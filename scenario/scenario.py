"""A scenario: one TOML file that describes server, clients, machine and run.

    [server] mechanism, limits       [load] active clients          [idle] silent connections
    [backend] service behind it      [network] the link             [machine] costs and CPUs
    [run] length, repetitions        [flood] unread datagrams       [[fault]] faults
    [[path]] paths to the link       [[clients]] classes of clients

Quantities carry their unit; unknown keys and impossible values are refused. Every error is one
sentence with file, key, rule and value. `dispatchsim schema` prints the JSON Schema.
"""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any, Self

from pydantic import ModelWrapValidatorHandler, PrivateAttr, ValidationError, model_validator

from ..models.catalogue import MECHANISMS
from ..sim.assembly.checks import has_siblings
from ..sim.kernel.handing_over import FDS_OF_SIBLING
from ..sim.load.workload import Load as Workload
from ..sim.load.workload import Trace
from ..sim.state.client_classes import ClientClass
from ..sim.state.client_settings import ClientSettings, NetworkSettings
from ..sim.state.laws import Law
from ..sim.state.mechanism import Trait
from ..sim.state.rules import broken_rules, sets_of
from ..sim.state.settings import RunSettings
from ..sim.state.units import SECOND_NS
from .backend import Backend, check_backend
from .client import check_client
from .clients import (
    ClientsSection,
    busiest_class,
    check_clients,
    class_names,
    classes_of,
    mean_requests,
)
from .declared import Section, properties_in_file, refuse, section_of, settings_from
from .errors import ScenarioError
from .faults import FaultSection, Flood, check_faults
from .formats import rate_text
from .load import Load
from .programs import without_program
from .quantities import DURATION, RATE, SIZE, shown
from .sections import Idle, Machine, Network, PathSection, Run, check_paths
from .sentences import sentences
from .server import Server, loops_by_default

_FILES = (
    *(("load", key) for key in ("trace", "think_file", "requests_file")),
    *(("clients", key) for key in ("think_file", "requests_file")),
    ("server", "request_cpu_file"),
    ("backend", "delay_file"),
)
"""Keys that name files, relative to the scenario file."""
DIALECT = "https://json-schema.org/draft/2020-12/schema"
CONNECTIONS_MIN = 10
CONNECTIONS_MAX = 5_000_000
"""Connections in one run: about two minutes and three gigabytes in the reference engine."""
OWN_DESCRIPTORS = 6
OWN_DESCRIPTORS_A_WORKER = 2
"""A server's own descriptors: standard streams; for each worker a listener and an epoll set."""


def _check_threads(server: Server, n_open: int) -> None:
    n, pool = server.threads_max, server.threads == "pool"
    if pool and n < server.workers:
        raise ValueError(
            f"server.workers: must be at most {n}, as more stacks exceed server.address_space, "
            f"got {server.workers}"
        )
    # A pool may be held by open connections entirely: it runs, but serves no other connection.
    least = n_open if pool else max(2, n_open + 1)
    if n < least:
        held = f", as each of the {n_open} open connections holds a thread" if n_open else ""
        raise ValueError(
            f"server.workers: must be at least {least}{held}, got {n} "
            "(all stacks must fit server.address_space)"
        )


class Scenario(Section):
    """A complete run, except for the seed of each replication.

    >>> scenario = Scenario.of(server={"mechanism": "poll"}, load={"loop": "closed", "users": 8})
    >>> scenario.run.replications
    5
    """

    server: Server
    load: Load
    idle: Idle = Idle()
    network: Network = Network()
    backend: Backend = Backend()
    run: Run = Run()
    machine: Machine = Machine()
    flood: Flood = Flood()
    fault: tuple[FaultSection, ...] = ()
    path: tuple[PathSection, ...] = ()
    clients: tuple[ClientsSection, ...] = ()
    _source: str = PrivateAttr("scenario")  # its origin, for messages
    _given: frozenset[str] = PrivateAttr(frozenset())  # keys of [server] that were replaced
    _alias: str = PrivateAttr("")  # alias used for the mechanism; empty: its name

    @model_validator(mode="wrap")
    @classmethod
    def _has_a_loop_a_cpu(cls, content: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        loops = loops_by_default(content) if isinstance(content, dict) else None
        if loops is None:
            return handler(content)
        scenario = handler({**content, "server": {**content["server"], "workers": loops}})
        # A default, not a given key: with other CPUs the number of loops changes.
        scenario.server.model_fields_set.discard("workers")
        return scenario

    @model_validator(mode="after")
    def _can_go_wrong(self) -> Self:
        check_faults(self.fault, self.flood, self.server.mechanism, self.machine, self.run)
        client = settings_from(self.load, ClientSettings)
        network = settings_from(self.network, NetworkSettings, set_up=self.network.set_up)
        for broken in broken_rules(RunSettings(client=client, network=network)):
            refuse(broken)
        crowd_start = self.load.crowd_start
        if crowd_start is not None and crowd_start >= self.run.duration:
            raise ValueError(
                f"load.crowd_start: must be before the end of the run (run.duration, "
                f"{DURATION.format(self.run.duration)}), got {DURATION.format(crowd_start)}"
            )
        machine = self.machine
        n_own = self.n_open + OWN_DESCRIPTORS + OWN_DESCRIPTORS_A_WORKER
        n_own += self.backend.connections or 0
        least = n_own + machine.files_elsewhere
        if 0 < machine.files < least:
            raise ValueError(
                f"machine.files: must be at least {least} ({self.n_open} open "
                f"connections, the server's own, machine.files_elsewhere), got {machine.files}"
            )
        least = self.n_open * machine.connection_memory
        if machine.memory is not None and machine.memory < least:
            raise ValueError(
                f"machine.memory: must hold {self.n_open} open connections "
                f"({SIZE.format(least)}), got {SIZE.format(machine.memory)}"
            )
        check_clients(self.clients, self.load, self.path)
        check_paths(self.path, of_classes=any(each.path for each in self.clients))
        return self

    @model_validator(mode="after")
    def _is_one_client(self) -> Self:
        if self.machine.role == "client" and self.clients:
            raise ValueError(
                'clients: must be absent where machine.role is "client", '
                f"got {len(self.clients)} sections"
            )
        return self

    @model_validator(mode="after")
    def _can_be_kept(self) -> Self:
        if self.load.connections is None:
            return self
        if self.path:
            raise ValueError(
                "path: must be absent where load.connections is given, "
                f"got {len(self.path)} section{'s' * (len(self.path) > 1)}"
            )
        if self.network.set_up == 0:
            raise ValueError(
                "network.set_up: must not be 0 where load.connections is given, as the SYN of a "
                "kept connection carries no request, got 0"
            )
        return self

    @model_validator(mode="after")
    def _fits(self) -> Self:
        server, n_open = self.server, self.n_open
        is_given = "backend" in self.model_fields_set
        check_backend(self.backend, server, self.load, self.machine.role, is_given=is_given)
        if self.machine.role == "client":
            check_client(server, self.load, self.idle, self.machine)
            return self
        if self.load.service_time > 0:
            raise ValueError(
                'load.service_time: must be absent unless machine.role is "client", '
                f"got {DURATION.format(self.load.service_time)}"
            )
        limits = {"server.descriptors": server.descriptors}
        if server.mechanism == "select" and server.fd_setsize:
            limits["server.fd_setsize"] = server.fd_setsize
        mechanism = MECHANISMS[server.mechanism]
        n_to_backend = self.backend.connections or 0
        to_backend = f"{n_to_backend} to the backend, " if n_to_backend else ""
        if Trait.IN_CALLS in mechanism.traits:
            _check_threads(server, n_open)
        elif Trait.IN_EPOLL in mechanism.traits:
            least = n_open + sets_of(server.run_settings.program) + n_to_backend
            if 0 < server.epoll_watches < least:
                raise ValueError(
                    f"server.epoll_watches: must be at least {least} ({n_open} idle connections, "
                    f"{to_backend}and a listener a set), or 0, got {server.epoll_watches}"
                )
        n_listening = 1 if mechanism.one_at_a_time else server.workers
        for key, limit in limits.items():
            each = OWN_DESCRIPTORS_A_WORKER + (server.request_timeout > 0)
            each += FDS_OF_SIBLING * has_siblings(server.run_settings.signals, mechanism)
            least = n_open + n_to_backend + OWN_DESCRIPTORS + n_listening * each
            if limit < least:
                raise ValueError(
                    f"{key}: must be at least {least} "
                    f"({n_open} open connections and {to_backend}the server's own), got {limit}"
                )
        if self.load.rate is not None:
            n = round(self.load.rate * self.run.duration / 1e9)
            what = "connections" if self.load.connections is None else "requests"
            if n < CONNECTIONS_MIN:
                raise ValueError(
                    f"load.rate: must give at least {CONNECTIONS_MIN} {what} in a run of "
                    f"{DURATION.format(self.run.duration)}, got {n}"
                )
            if n > CONNECTIONS_MAX:
                raise ValueError(
                    f"load.rate: must give at most {CONNECTIONS_MAX} {what} in a run of "
                    f"{DURATION.format(self.run.duration)}, got {n}"
                )
            if self.load.rate > self.rate_max_per_s:
                n, _, of_class = busiest_class(self.client_classes, self.load.connections or 0)
                raise ValueError(
                    f"load.rate: must be at most {rate_text(self.rate_max_per_s)}, as each of "
                    f"{n} connections{of_class} carries one request per round trip "
                    f"(network.delay twice), got {RATE.format(self.load.rate)}"
                )
        return self

    @property
    def rate_max_per_s(self) -> float:
        """Requests a second that the kept connections can carry; infinite without them.

        Each connection has one request at a time, which takes at least a round trip.
        """
        delay_ns = self.network.delay
        if not self.load.connections or not delay_ns:
            return math.inf
        n, share, _ = busiest_class(self.client_classes, self.load.connections)
        return n * SECOND_NS / (2 * delay_ns) / share

    @property
    def n_open(self) -> int:
        """The connections that are open during the whole run: silent and kept ones."""
        return self.idle.connections + (self.load.connections or 0)

    @classmethod
    def of(cls, **sections: Any) -> Self:
        """Return the scenario of these sections, each a dictionary as in a TOML file.

        Raises
        ------
        ScenarioError
            With key, rule and value.
        """
        return cls.check(sections, "scenario")

    @classmethod
    def check(cls, content: dict[str, Any], source: str) -> Self:
        """Return the scenario in *content*; *source* begins the message of any error.

        Raises
        ------
        ScenarioError
            With source, key, rule and value, a sentence for each mistake. Rules between keys are
            checked when each key by itself is valid.
        """
        try:
            scenario = cls.model_validate(content)
        except ValidationError as error:
            found = sentences(error, cls, content)
            raise ScenarioError(*(f"{source}: {each}" for each in found)) from None
        scenario._source = source
        server = content["server"]
        called = server.get("mechanism", "") if isinstance(server, dict) else ""
        scenario._alias = "" if called == scenario.server.mechanism else called
        return scenario

    @classmethod
    def read(cls, path: Path | str) -> Self:
        """Read a scenario file.

        Raises
        ------
        ScenarioError
            If it cannot be read, is not TOML or breaks a rule.
        """
        path = Path(path)
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise ScenarioError(f"{path}: cannot be read ({reason})") from None
        except UnicodeDecodeError:
            raise ScenarioError(f"{path}: must be a text file in UTF-8") from None
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise ScenarioError(f"{path}: is not TOML ({error})") from None
        machine = content.get("machine")
        for section, key in _FILES:
            found = content.get(section)
            for values in found if isinstance(found, list) else [found]:
                if isinstance(values, dict) and isinstance(values.get(key), str):
                    values[key] = str(path.parent / values[key])
        if isinstance(machine, dict) and isinstance(machine.get("profile"), str):
            beside = path.parent / machine["profile"]
            if beside.suffix == ".toml":  # otherwise it is the name of a shipped profile
                machine["profile"] = str(beside)
        if isinstance(machine, dict) and isinstance(machine.get("noise"), str):
            beside = path.parent / machine["noise"]
            if beside.suffix == ".jsonl":  # otherwise it is a word, or the name of a recording
                machine["noise"] = str(beside)
        return cls.check(content, str(path))

    def with_values(self, **sections: dict[str, Any]) -> Self:
        """Return this scenario with some keys of some sections replaced, checked again.

        None removes a key: its default holds again. Another server.program replaces the mechanism
        and the keys of the old program, except keys that were replaced on their own.

        Raises
        ------
        ScenarioError
            If the result breaks a rule.
        """
        content = self.to_dict()
        given = sections.get("server", {})
        if "program" in given:
            content["server"] = without_program(content["server"], self._given)
        for name, values in sections.items():
            replaced = {**content.get(name, {}), **values}
            content[name] = {key: value for key, value in replaced.items() if value is not None}
        scenario = type(self).check(content, self._source)
        taken_away = {key for key, value in given.items() if value is None}
        scenario._given = (self._given | frozenset(given)) - taken_away
        if not {"mechanism", "program"} & set(given):
            scenario._alias = self._alias
        return scenario

    def to_dict(self) -> dict[str, Any]:
        """Return the sections as a file would hold them: only what was set, with units."""
        return self.model_dump(exclude_unset=True, exclude_none=True)

    @property
    def alias(self) -> str:
        """The alias by which the file calls the mechanism, "epoll"; empty: its name."""
        return self._alias

    @property
    def is_random(self) -> bool:
        """Whether the result depends on the seed; otherwise one replication suffices."""
        load = self.load
        drawn = (
            load.retry_jitter > 0
            or load.reply_mix is not None
            or load.requests_spread != "constant"
            or bool(self.clients)
            or self.server.request_cpu_spread != "constant"
            or (
                self.backend.connections is not None
                and (self.backend.delay_spread != "constant" or 0 < self.backend.share < 1)
            )
            or (
                load.trace is None
                and (
                    (load.loop == "open" and load.arrivals != "constant")
                    or (load.think != "constant" and load.think_law.mean > 0)
                )
            )
        )
        loses = any(path.loss for path in self.path)
        flooded = self.flood.rate is not None and self.flood.arrivals == "poisson"
        return (
            drawn or flooded or loses or (self.idle.life is not None and self.idle.connections > 0)
        )

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of the replications: one only where nothing is random."""
        n = self.run.replications if self.is_random else 1
        return tuple(range(self.run.seed, self.run.seed + n))

    def trace(self, seed: int, seconds: float, rows: int = 0) -> Trace:
        """Return the arrivals of a run of *seconds*; in a closed loop *rows* connections."""
        return self.workload.trace(seed, seconds, rows)

    @property
    def workload(self) -> Workload:
        """The arrivals. Users of a closed loop pause first, as if the run had begun earlier."""
        return self.load.workload._replace(pauses_first=True, classes=self.client_classes)

    @property
    def client_classes(self) -> tuple[ClientClass, ...]:
        """The classes of clients, completed from [load]; none where all clients are alike."""
        return classes_of(self.clients, self.load, self.path)

    @property
    def class_names(self) -> list[str]:
        """The name of each class in results."""
        return class_names(self.clients)

    @property
    def requests_each(self) -> float:
        """The mean number of requests on a connection; classes count by their shares."""
        load = self.load
        is_kept = load.connections is not None
        return mean_requests(self.client_classes, load.request_counts, is_kept=is_kept)

    @property
    def has_one_request(self) -> bool:
        """Whether every connection makes one request."""
        return self.load.trace is None and not self.workload.has_several

    @property
    def pause_law(self) -> Law | None:
        """The law of pauses between the requests of a connection; None: the trace has them.

        Classes of clients have laws of their own.
        """
        return None if self.clients else self.load.pause_law

    def on_its_testbed(self, settings: RunSettings) -> RunSettings:
        """Return *settings* with values that no key of a file holds: by default unchanged."""
        return settings


def scenario_schema() -> dict[str, Any]:
    """Return the JSON Schema of scenario files, as a file would hold them."""
    schema = Scenario.model_json_schema()
    server = schema["$defs"]["Server"]
    server["required"].remove("mechanism")
    del server["properties"]["workers"]["default"]  # the machine's CPUs, or one thread of a pool
    server["anyOf"] = [{"required": [key]} for key in ("mechanism", "program")]
    for section in map(section_of, Scenario.model_fields.values()):
        of_section = schema["$defs"][section.__name__]
        of_section["properties"] = properties_in_file(section, of_section)
    return {"$schema": DIALECT, **schema}


def check_scenario(scenario: object) -> None:
    """Refuse an argument that is not a `Scenario`, such as the name of a file.

    Raises
    ------
    TypeError
        With the calls that make a scenario.
    """
    if not isinstance(scenario, Scenario):
        raise TypeError(
            f"scenario: must be a Scenario, got {shown(scenario)}: Scenario.read(FILE) reads one, "
            "Scenario.of(...) makes one (`dispatchsim scenarios --copy FOLDER` gives example files)"
        )
