"""The section [server] of a scenario file: keys, units, bounds, and rules between its keys."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple, Self

from pydantic import Field, StrictStr, field_validator, model_validator

from ..models.catalogue import ALIASES, CATALOGUE, MECHANISMS, named
from ..models.suitable_settings import broken_rule, ignored_settings, threads_max
from ..sim.state.kernel_settings import CPUS_MAX
from ..sim.state.laws import Law
from ..sim.state.mechanism import Trait
from ..sim.state.rules import broken_rules, too_few_epoll_sets, too_many_workers
from ..sim.state.settings import FOR_SERVER, RunSettings
from .declared import SettingsSection, refuse, settings_from, written
from .errors import one_of
from .key_types import Bounded
from .laws import Spread, law_of
from .programs import PROGRAMS, check_program, with_program
from .quantities import DURATION, QuantityError, read_count, shown

_RECORDS = {field: type(RunSettings._field_defaults[field]) for field in FOR_SERVER}
"""The records of settings whose fields become keys of [server], by field of `RunSettings`."""


_WITH_HYPHENS = tuple(alias.replace("_", "-") for alias in ALIASES)


class BrokenKey(NamedTuple):
    """A key whose value a mechanism does not support, and the reason."""

    key: str
    value: str
    must: str
    others: str


class Server(SettingsSection, settings=_RECORDS.values()):
    """The server program: how it waits and accepts, and its limits."""

    program: StrictStr | None = Field(
        default=None,
        description="A published server, such as phhttpd, that sets mechanism and other keys.",
        json_schema_extra={"enum": list(PROGRAMS)},
    )
    mechanism: StrictStr = Field(
        description="How the server learns that descriptors are ready, such as poll. Required, "
        "unless server.program is given.",
        json_schema_extra={"enum": list(dict.fromkeys((*MECHANISMS, *ALIASES, *_WITH_HYPHENS)))},
    )

    request_cpu_spread: Spread = Field(
        default="constant",
        description="Distribution of the CPU time of requests. samples: the times in "
        "server.request_cpu_file.",
    )
    request_cpu_p99: Annotated[int, Bounded(DURATION, "0 s", "1 h")] | None = Field(
        default=None,
        description="99th percentile of a lognormal spread, above server.request_cpu.",
    )
    request_cpu_file: StrictStr | None = Field(
        default=None,
        description="A file of CPU times of requests, one a line, such as 850 us; relative to the "
        "scenario file.",
    )

    @property
    def request_cpu_law(self) -> Law:
        """The law of the application's CPU time for a request.

        Raises
        ------
        ValueError
            With key, rule and value, where the keys do not make a law.
        """
        return law_of(
            "server.request_cpu",
            self.request_cpu,
            self.request_cpu_spread,
            self.request_cpu_p99,
            self.request_cpu_file,
        )

    @model_validator(mode="after")
    def _has_a_law(self) -> Self:
        _ = self.request_cpu_law
        return self

    @model_validator(mode="before")
    @classmethod
    def _is_its_program(cls, content: Any) -> Any:
        if not isinstance(content, dict):
            return content
        if isinstance(content.get("mechanism"), str):
            content = content | {"mechanism": named(content["mechanism"])}
        program = content.get("program")
        if isinstance(program, str) and program not in PROGRAMS:
            # `_is_a_program` refuses it, together with other mistakes. The missing mechanism is
            # no mistake of its own.
            return {"mechanism": next(iter(MECHANISMS)), **content}
        return with_program(content)

    @field_validator("program")
    @classmethod
    def _is_a_program(cls, name: str | None) -> str | None:
        if name is not None:
            check_program(name)
        return name

    @field_validator("mechanism")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in MECHANISMS:
            raise ValueError(f"{one_of(name, MECHANISMS, ALIASES)}, got {shown(name)}")
        return name

    @property
    def threads_max(self) -> int:
        """The largest number of threads or processes at once; each process has its own space."""
        return threads_max(self.run_settings)

    @property
    def run_settings(self) -> RunSettings:
        """The settings and limits of the server program in a run, without other sections."""
        records = {field: settings_from(self, record) for field, record in _RECORDS.items()}
        return RunSettings(**records)

    def broken_rule(self, mechanism: str) -> BrokenKey | None:
        """Return the first of these settings that *mechanism* does not support, if any."""
        rule = broken_rule(CATALOGUE[mechanism], self.run_settings)
        if rule is None:
            return None
        key = self.keys[rule.given.declared.name]
        default = type(self).model_fields[key].default
        value = written(getattr(self, key))
        must = f"be {written(default)}" if rule.refused is None else f"not be {value}"
        return BrokenKey(f"server.{key}", value, must, rule.others)

    @property
    def ignored(self) -> list[tuple[str, str]]:
        """The keys that are set although the mechanism ignores them, with their values."""
        settings = ignored_settings(CATALOGUE[self.mechanism], self.run_settings)
        keys = [self.keys[setting] for setting in settings]
        return [(key, written(getattr(self, key))) for key in keys]

    @model_validator(mode="after")
    def _goes_with_its_mechanism(self) -> Self:
        broken = self.broken_rule(self.mechanism)
        if broken is not None:
            raise ValueError(
                f"{broken.key}: must {broken.must} where server.mechanism is "
                f'"{self.mechanism}", {broken.others}, got {broken.value}'
            )
        return self

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        settings, mechanism = self.run_settings, MECHANISMS[self.mechanism]
        refuse(too_many_workers(settings, one_at_a_time=mechanism.one_at_a_time))
        for broken in broken_rules(settings):
            refuse(broken)
        if Trait.IN_EPOLL in mechanism.traits:
            refuse(too_few_epoll_sets(settings))
        return self

    @model_validator(mode="after")
    def _tolerates_the_least(self) -> Self:
        if 0 < self.concurrency_tolerance < 1:
            raise ValueError(
                "server.concurrency_tolerance: must be 0 or at least 1, as no latency is below the "
                f"minimum, got {self.concurrency_tolerance}"
            )
        return self

    @model_validator(mode="after")
    def _looks_for_the_late(self) -> Self:
        if self.request_timeout == 0 and "timeout_check" in self.model_fields_set:
            raise ValueError("server.timeout_check: must be absent where server.request_timeout is")
        return self


def loops_by_default(content: dict[str, Any]) -> int | None:
    """Return the default number of event loops: one for each CPU.

    None where the sections in *content* set the workers or break a rule, where workers are no
    event loops, and with one CPU.
    """
    server, machine = content.get("server"), content.get("machine", {})
    if not isinstance(server, dict) or not isinstance(machine, dict):
        return None
    cpus = machine.get("cpus", 1)
    if "workers" in server or machine.get("role") == "client":
        return None
    program = PROGRAMS.get(str(server.get("program")))
    mechanism = server.get("mechanism", program and program.keys["mechanism"])
    entry = CATALOGUE.get(named(str(mechanism)))
    if entry is None or entry.runs_pool:
        return None
    if isinstance(cpus, str):
        try:
            cpus = read_count(cpus)
        except QuantityError:
            return None
    return cpus if type(cpus) is int and 1 < cpus <= CPUS_MAX else None
