# The translator infers the types, as it does for models.
# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: PLW2901, PLR0917, RET504, PLR1711 (constructs that the translator has to know)
"""One function for each construct of the restricted Python; the tests call them."""

from __future__ import annotations

from enum import IntEnum

SEVEN = 7
THREE = (1, 2, 3)
IS_ON = True
IS_OFF = False


class Kind(IntEnum):
    SMALL = 2
    BIG = 2**40


# -- numbers


def arithmetic(a, b):
    return a + b * 3 - (a & b) + (a | b) - (a ^ b)


def floor_division(a, b):
    return a // b


def modulo(a, b):
    return a % b


def shifts(a, b):
    return (a << b) + (a >> b)


def signs(a):
    return -a + ~a + +a


def least_number():
    return -9223372036854775808


def smallest_and_largest(a, b):
    return min(a, b, 5) * 100 + max(a, b) + abs(a)


def truth_values_as_numbers(a, b):
    return (a < b) + int(a == b) * 10 + bool(a) * 100


def constants():
    return SEVEN * 2 + Kind.BIG + Kind.SMALL + (1 << 5) - len(THREE)


# -- conditions


def chained(world, a, b):
    return a < bumped(world) <= b != 7


def deciding_values(a, b):
    return (a or b) * 100 + (a and b)


def short_circuit(world, a):
    is_over = a > 0 and bumped(world) > 0
    is_over = is_over or bumped(world) > 100
    return is_over


def negation(a, is_open):
    return (not a) + (not (is_open and a)) * 2


def membership(a):
    return (a in (1, 4, SEVEN)) + (a not in (Kind.SMALL, 0)) * 2


def conditional(a, b):
    return a if a > b else -b


def dropped_branches(world):
    if IS_OFF:
        return world.no_such_member
    if IS_ON and not IS_OFF:
        return 3 if IS_ON else world.no_such_member
    return 4


def dropped_parts(world, a):
    nothing_known = IS_OFF and world.no_such_member
    seven = SEVEN or world.no_such_member
    either = a or SEVEN or world.no_such_member
    both = IS_ON and SEVEN and a
    is_never = world.flag and IS_OFF and world.no_such_member
    return nothing_known + seven * 10 + either * 100 + both * 10_000 + is_never


# -- order


def bumped(world):
    world.x += 1
    return world.x


def calls_from_the_left(world):
    return world.x + bumped(world) * 10 + world.x * 100 + bumped(world) * 1000


def arguments_from_the_left(world):
    return difference(world.x, bumped(world)) * 100 + min(bumped(world), world.x)


def difference(a, b):
    return a - b


def value_before_place(world):
    world.numbers[bumped(world)] = world.x
    return world.numbers[4]


def place_before_old_value(world):
    world.x += bumped(world)
    world.numbers[world.x - 5] += bumped(world)
    return world.numbers[2] * 10 + world.x


# -- statements


def assignments(a, b):
    a, b = b, a
    c = d = a + 1
    e: int = c + d
    e -= b
    return e


def swapped_entries(world):
    world.numbers[0], world.numbers[3] = world.numbers[3], world.numbers[0]
    return world.numbers[0] * 10 + world.numbers[3]


def branches(a):
    if a < 0:
        b = -1
    elif a == 0:
        b = 0
    else:
        b = 1
    return b


def loops(a):
    total = 0
    for i in range(a):
        if i == 2:
            continue
        if i == 6:
            break
        total += i
    for i in range(a, -a, -3):
        total += i * 100
    for i in range(1, 8, 4):
        i += 1
        total += i * 10_000
    while total % 7:
        total += 1
        if total > 90_000:
            break
    return total


def last_steps_of_64_bits():
    n = 0
    for i in range(9223372036854775801, 9223372036854775807, 4):
        n += i % 2
    for i in range(-9223372036854775806, -9223372036854775808, -3):
        n += i % 2
    return n


def asserted(a):
    assert a > 0, "a message that C leaves out"
    return a


def nothing(world):
    """Return nothing."""
    world.y = 1
    return


def calls_nothing(world):
    nothing(world)
    return world.y


# -- the world


def records(world, worker):
    row = world.rows[1]
    row.number += 1
    worker.row.number = row.number
    row = worker.row
    row.number -= 10
    return world.rows[1].number * 1000 + row.number + len(world.rows)


def truths(world):
    world.flag = world.rows[1].is_open
    world.flag &= not world.rows[0].is_open
    world.rows[0].is_open |= world.flag
    return world.flag


def tuples(world):
    calls = world.costs.call
    return calls.read_ns + calls.write_ns * 100 + world.costs.by_size[2] + world.costs.is_dear


def frozen(world):
    return world.limits.most + world.limits.is_hard


def columns(world, a):
    world.small[0] = a % 100
    world.short[1] = world.small[0] * world.small[1]
    world.wide[2] = world.short[0] * world.short[2]
    world.numbers[2] = world.wide[0] * world.wide[0]
    return world.numbers[2] + len(world.short)


def narrow(world, a):
    world.small[0] += a
    return world.small[0]


def entry(world, a):
    return world.numbers[a]


def five(a):
    return 5


def argument_of_a_constant(world, a):
    return five(world.numbers[a]) + five(7 // (a - 3)) + five(world.x)


def fault_in_elif(world, a):
    if a == 1:
        a = 2
    elif world.numbers[a] == 5:
        a = 3
    return a


# -- generators


def part(world, worker, n):
    for i in range(n):
        if i == 3:
            return i
        yield 10 + i
        world.y += world.now_ns
    return n * 100


def steps(world, worker):
    yield 5
    world.x += 1
    yield 6


def generator_with_a_value(world, worker):
    found = world.x + (yield from part(world, worker, 2)) + world.y
    yield found & 1023
    return found + (yield from part(world, worker, 9))


def loop_over_steps(world, worker):
    for step_ns in steps(world, worker):
        yield step_ns
    for step_ns in steps(world, worker):
        world.y += step_ns
        if step_ns == 6:
            yield 1
        yield step_ns + 100


def dropped_steps(world, worker):
    for _ in generator_with_a_value(world, worker):
        pass
    for _ in loop_over_steps(world, worker):
        pass
    return world.now_ns * 10_000 + world.y


def dropped_and_taken_steps(world, worker):
    for _ in steps(world, worker):
        pass
    yield from steps(world, worker)
    for _ in steps(world, worker):
        pass
    return world.now_ns * 100 + world.x


def loop_within_a_loop(world, worker):
    for step_ns in loop_over_steps(world, worker):
        world.now_ns += 1000
        yield step_ns * 2
    yield from loop_over_steps(world, worker)


def without_the_world(worker):
    yield 7


def hidden_world(world, worker):
    yield from without_the_world(worker)
    return world.now_ns


# -- names of C and of the engine


def register(main, int64_t, errno, fail, step, linux, unix, running):
    leave = v_main = x1 = main
    static = 0
    for volatile in range(3):
        static += volatile
    return leave + v_main + x1 + int64_t + errno + fail + step + linux + unix + running + static


def leave(struct, value_, index_):
    return register(struct, value_, index_, 1, 1, 1, 1, 1)


def main(world, void):
    world.numbers[void] = leave(void, 1, 2)
    return world.numbers[void]
