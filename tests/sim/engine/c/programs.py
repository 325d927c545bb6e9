"""Random programs in the restricted Python: a function, or a generator, each with its numbers.

Every loop ends; every variable has a value. Indices, divisors, shifts and stores may be wrong: then
C and CPython both have to fail.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hypothesis import strategies as st

LEAST, MOST = -(2**63), 2**63 - 1
NAME = "PROGRAM"
"""Stands in the text for the name of the program."""
_NUMBERS = (
    *range(9), -1, -2, -3, 63, 64, 100, 127, 128, 255, 1_000, -129, 2**31 - 1, 2**31, -(2**31),
    2**32, 2**40, -(2**40), MOST - 1, MOST, LEAST, LEAST + 1,
)  # fmt: skip
_VARIABLES = ("a", "b", "register")
_FIELDS = ("world.x", "world.y", "worker.number", "worker.row.number", "world.rows[1].number")
_COLUMNS = ("numbers", "small", "short", "wide")
_CONSTANTS = (
    "SEVEN", "MINUS_FIVE", "Kind.BIG", "world.costs.call.read_ns", "world.costs.call.write_ns",
)  # fmt: skip
_PARTS = ("part", "part_with_loop", "part_without_steps")
_DEPTH = 3

PRELUDE = '''\
"""What the programs call."""

from enum import IntEnum


class Kind(IntEnum):
    SMALL = 2
    BIG = 2**33


SEVEN = 7
MINUS_FIVE = -5
IS_ON = True
IS_OFF = False


def bump(world, n):
    world.x = (world.x ^ n) & 65535
    world.numbers[1] = world.x
    return world.x - 100


def toggled(world):
    world.flag = not world.flag
    return world.flag


def peeked(world, n):
    return world.x + (n & 1023) + world.small[3]


def row_of(world, i):
    world.y = (world.y + 1) & 255
    return world.rows[i % 3]


def nothing(world):
    world.y -= 1 if world.y > -1000 else 0


def part(world, worker, n):
    yield n & 1023
    world.y = (world.y ^ n) & 4095
    if n & 1:
        return world.y
    yield world.x & 7
    return n


def part_with_loop(world, worker, n):
    total = 0
    for i in range(n % 4):
        total += (yield from part(world, worker, i)) & 65535
        for step_ns in steps(world, worker, i):
            yield step_ns
    return total


def part_without_steps(world, worker, n):
    if world.x < LEAST_OF_ALL:
        yield 1
    return n ^ 3


LEAST_OF_ALL = -(2**63)


def steps(world, worker, n):
    for i in range(n % 3):
        yield i + 10
        world.numbers[2] = world.now_ns + i


'''


class Program(NamedTuple):
    """A program and what it is called with."""

    text: str
    given: tuple[tuple[int, int], ...]


class _Author:
    """Writes one program."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.is_generator = draw(st.booleans())
        self.has_steps = self.is_generator
        self.loops = 0
        self.n_names = 0
        self.names = list(_VARIABLES)
        self.lines: list[str] = []

    def one(self, *of: str) -> str:
        return self.draw(st.sampled_from(of))

    def chance(self, of: int) -> bool:
        return self.draw(st.integers(0, of - 1)) == of - 1

    # -- expressions

    def leaf(self) -> str:
        match self.draw(st.integers(0, 5)):
            case 0:
                return str(self.draw(st.sampled_from(_NUMBERS)))
            case 1:
                return self.one(*_FIELDS)
            case 2:
                return self.one(*_CONSTANTS)
            case 3:
                column = self.one(*_COLUMNS)
                return f"world.{column}[{self.draw(st.integers(0, 3))}]"
        return self.one(*self.names)

    def number(self, depth: int = _DEPTH) -> str:  # noqa: PLR0911, PLR0912 (one case a kind)
        if depth == 0 or self.chance(4):
            return self.leaf()
        inner = depth - 1
        match self.draw(st.integers(0, 14 + 2 * self.has_steps)):
            case 0 | 1:
                op = self.one("+", "-", "&", "|", "^")
                return f"({self.number(inner)} {op} {self.number(inner)})"
            case 2:
                return f"({self.number(inner)} {self.one('//', '%')} {self.number(inner)})"
            case 3:
                return f"({self.leaf()} * {self.number(inner)})"
            case 4:
                by = self.one("3", "40", "63", "64", f"({self.number(0)} % 70 - 2)")
                return f"({self.number(inner)} {self.one('<<', '>>')} {by})"
            case 5:
                return f"{self.one('-', '~', '+')}{self.number(inner)}"
            case 6:
                more = f", {self.number(0)}" if self.chance(3) else ""
                return f"{self.one('min', 'max')}({self.number(inner)}, {self.number(inner)}{more})"
            case 7:
                return f"abs({self.number(inner)})"
            case 8:
                test = self.condition(inner)
                return f"({self.number(inner)} if {test} else {self.number(inner)})"
            case 9:
                parts = [self.number(inner) for _ in range(self.draw(st.integers(2, 3)))]
                return f"({self.one(' and ', ' or ').join(parts)})"
            case 10:
                return f"bump(world, {self.number(inner)})"
            case 11:
                return f"peeked(world, {self.number(inner)})"
            case 12:
                return self.place(inner)
            case 13:
                return f"int({self.condition(inner)})"
            case 14:
                return self.one("len(world.short)", "len(world.rows)", "world.costs.by_size[2]")
        return f"(yield from {self.one(*_PARTS)}(world, worker, {self.number(inner)}))"

    def at_once(self, write: Callable[[int], str], depth: int) -> str:
        """Return what *write* writes, without steps: here the translator refuses them."""
        has_steps, self.has_steps = self.has_steps, False
        text = write(depth)
        self.has_steps = has_steps
        return text

    def place(self, depth: int) -> str:
        """Return what can be assigned to."""
        match self.draw(st.integers(0, 4)):
            case 0:
                return self.one(*_FIELDS)
            case 1:
                return f"row_of(world, {self.at_once(self.number, depth)}).number"
            case 2:
                return f"world.rows[{self.at_once(self.number, depth)} % len(world.rows)].number"
        column = f"world.{self.one(*_COLUMNS)}"
        index = self.at_once(self.number, depth)
        return f"{column}[{index}]" if self.chance(8) else f"{column}[{index} % len({column})]"

    def condition(self, depth: int = _DEPTH) -> str:  # noqa: PLR0911 (one case a kind)
        inner = max(0, depth - 1)
        match self.draw(st.integers(0, 8 if depth else 2)):
            case 0 | 1:
                ops = [self.one("<", "<=", "==", "!=", ">", ">=") for _ in range(2)]
                tail = f" {ops[1]} {self.number(inner)}" if self.chance(3) else ""
                return f"({self.number(inner)} {ops[0]} {self.number(inner)}{tail})"
            case 2:
                return self.one(
                    "world.flag", "IS_ON", "IS_OFF", "world.costs.is_dear", "worker.row.is_open"
                )
            case 3:
                parts = [self.condition(inner) for _ in range(self.draw(st.integers(2, 3)))]
                return f"({self.one(' and ', ' or ').join(parts)})"
            case 4:
                return f"(not {self.condition(inner)})"
            case 5:
                word = self.one("in", "not in")
                return f"({self.number(inner)} {word} ({self.leaf()}, 3, SEVEN, {self.leaf()}))"
            case 6:
                return f"bool({self.number(inner)})"
            case 7:
                return "toggled(world)"
        op = self.one("&", "|", "^", "==", "<")
        return f"({self.condition(inner)} {op} {self.condition(inner)})"

    # -- statements

    def block(self, depth: int, indent: str) -> None:
        for _ in range(self.draw(st.integers(1, 3))):
            self.statement(depth, indent)

    def put(self, indent: str, text: str) -> None:
        self.lines.append(indent + text)

    def new_name(self) -> str:
        self.n_names += 1
        return f"i{self.n_names}"

    def statement(self, depth: int, indent: str) -> None:  # noqa: PLR0912, PLR0915 (one case a kind)
        more = f"{indent}    "
        ops = ("+", "-", "&", "|", "^", "*", "//", "%", ">>")
        least = 0 if depth else 5
        match self.draw(st.integers(least, 16 + 3 * self.is_generator)):
            case 0 | 1:
                self.put(indent, f"if {self.condition()}:")
                self.block(depth - 1, more)
                if self.chance(3):
                    self.put(indent, f"elif {self.condition()}:")
                    self.block(depth - 1, more)
                if self.chance(2):
                    self.put(indent, "else:")
                    self.block(depth - 1, more)
            case 2 | 3:
                self.for_loop(depth, indent)
            case 4:
                name = self.new_name()
                self.put(indent, f"{name} = {self.number(1)} % 6")
                self.put(indent, f"while {name} > 0 and {self.condition(1)}:")
                self.put(more, f"{name} -= 1")
                self.loop_body(depth, more)
            case 5 | 6:
                self.put(indent, f"{self.one(*_VARIABLES)} = {self.number()}")
            case 7:
                self.put(indent, f"{self.one(*_VARIABLES)} {self.one(*ops)}= {self.number(2)}")
            case 8 | 9:
                self.put(indent, f"{self.place(2)} = {self.stored()}")
            case 10:
                changed, by = self.place(2), self.at_once(self.number, 2)
                self.put(indent, f"{changed} {self.one(*ops)}= {by}")
            case 11:
                first, other = self.one(*_VARIABLES), self.place(1)
                self.put(indent, f"{first}, {other} = {self.stored()}, {self.number(1)}")
            case 12:
                self.put(indent, f"{self.place(1)} = {self.one(*_VARIABLES)} = {self.stored()}")
            case 13:
                place = self.one("world.flag", "worker.row.is_open")
                value = self.at_once(self.condition, _DEPTH)
                self.put(indent, f"{place} {self.one('=', '&=', '|=', '^=')} {value}")
            case 14:
                self.rare(indent)
            case 15:
                self.put(indent, self.one("nothing(world)", "pass", f"bump(world, {self.leaf()})"))
            case 16:
                dropped = self.one("steps", *_PARTS)
                by = self.at_once(self.number, 1)
                self.put(indent, f"for step_ns in {dropped}(world, worker, {by}):")
                self.put(more, "pass")
            case 17:
                self.put(indent, f"yield {self.number(2)}")
            case 18:
                call = f"{self.one(*_PARTS)}(world, worker, {self.number(1)})"
                self.put(indent, f"{self.one('', 'a = ')}yield from {call}")
            case 19:
                self.put(indent, f"for step_ns in steps(world, worker, {self.number(1)}):")
                if self.chance(2):
                    self.put(more, "world.y = (world.y + step_ns) & 255")
                self.put(more, self.one("yield step_ns", "yield step_ns & 15"))

    def rare(self, indent: str) -> None:
        """Write what ends something."""
        match self.draw(st.integers(0, 3)):
            case 0 if self.loops:
                self.put(indent, f"if {self.condition(1)}:")
                self.put(f"{indent}    ", self.one("break", "continue"))
            case 1:
                self.put(indent, f"assert {self.one(*self.names)} != {self.leaf()}, 'why'")
            case _:
                self.put(indent, f"if {self.condition(1)}:")
                self.put(f"{indent}    ", f"return {self.number(1)}")

    def stored(self) -> str:
        """Return a number that mostly fits narrow columns."""
        return (
            f"({self.number(2)}) % {self.one('100', '30000')} - 50"
            if self.chance(2)
            else (self.number(2))
        )

    def for_loop(self, depth: int, indent: str) -> None:
        name = self.new_name()
        bounds = self.one(
            f"{self.number(1)} % 5",
            f"{self.number(0)} % 5, {self.number(0)} % 9, 2",
            f"{self.number(0)} % 5, {self.number(0)} % 5 - 3, -1",
            f"{MOST} - {self.leaf()} % 3, {MOST}, 2",
            f"{LEAST} + {self.leaf()} % 9, {LEAST}, -4",
        )
        self.put(indent, f"for {name} in range({bounds}):")
        self.names.append(name)
        if self.chance(3):
            self.put(f"{indent}    ", f"{name} ^= {self.leaf()}")
        self.loop_body(depth, f"{indent}    ")
        self.names.remove(name)

    def loop_body(self, depth: int, indent: str) -> None:
        self.loops += 1
        self.block(depth - 1, indent)
        self.loops -= 1


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Draw a program."""
    author = _Author(draw)
    author.put("", f"def {NAME}(world, worker, a, b):")
    author.put("    ", f"register = {author.one('0', 'b', 'world.x', 'worker.number')}")
    author.block(2, "    ")
    if author.is_generator:
        author.put("    ", "yield b")
    author.put("    ", f"return {author.number()}")
    numbers = st.sampled_from(_NUMBERS)
    given = draw(st.lists(st.tuples(numbers, numbers), min_size=3, max_size=6))
    return Program("\n".join(author.lines) + "\n", tuple(given))
