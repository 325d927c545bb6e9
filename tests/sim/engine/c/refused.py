# Nothing here can be translated; the line of each fault says so.
# mypy: ignore-errors
# ruff: noqa
"""What is outside the restricted Python: each fault stands in a line that ends with #!."""

import functools

TABLE = [1, 2, 3]


def many_faults(world, worker, a):
    squares = [i * i for i in range(a)]  #! write a loop
    half = a / 2  #! whole numbers only, use //
    a = 0.5  #! cannot hold 0.5
    world.flag = a + 1  #! a number cannot be stored in a bool
    b = world.no_such  #! no member no_such
    try:  #! test for the case beforehand
        pass
    except ValueError:
        pass
    world.numbers[-1] = 3  #! len(column) - 1
    for row in world.rows:  #! a loop runs over range
        pass
    print(a)  #! whose source is at hand
    part(world, worker)  #! write yield from
    world.workers = 3  #! only numbers can be assigned
    assert bumped(world) > 0  #! must not change the world
    max  #! this does nothing
    while a:
        pass
    else:
        pass  #! no else of a loop
    if a is None:  #! use NONE
        pass
    return TABLE[a]  #! only columns and lists of records


def bumped(world):
    world.x += 1
    return world.x


def part(world, worker):
    yield 1


def keeps_a_column(world, worker, a):
    column = world.numbers  #! name it where it is used
    yield 1
    column[0] = a
    world.numbers[0] += yield from part(world, worker)  #! to a variable first
    world.numbers[(yield from part(world, worker))] = a  #! to a variable first


def unassigned(a):
    if a > 0:
        b = 1
    return b  #! b may have no value here


def of_itself():
    c = c  #! c is read before it has a value
    return 1


def without_an_end(a):  #! may end without a value
    if a > 0:
        return 1


def value_or_nothing(a):
    if a > 0:
        return  #! returns nothing, elsewhere a value
    return 1


def calls_itself(a):
    return calls_itself(a - 1)  #! use a loop


def with_a_default(a=1):
    return a


def calls_with_a_default(a):
    return with_a_default(a)  #! plain arguments


def doubled(function):
    @functools.wraps(function)
    def wrapper(world, worker):
        for step_ns in function(world, worker):
            yield 2 * step_ns

    return wrapper


@doubled
def decorated(world, worker):
    yield 5


def calls_a_decorated_one(world, worker):
    yield from decorated(world, worker)  #! changed by a decorator


def ends_a_loop_over_steps(world, worker):
    for step_ns in part(world, worker):
        yield step_ns + 1
        break  #! nothing can end the loop


def keeps_what_a_loop_over_steps_assigns(world, worker):
    last_ns = 0
    for step_ns in part(world, worker):  #! keep it in a record
        last_ns = step_ns
        yield step_ns
    yield last_ns


def with_another_worker(world, worker):
    worker = world.workers[0]  #! stays what it is
    yield 1


def changes_what_is_fixed(world, a):
    world.costs.is_dear = False  #! the member is_dear of a Costs cannot be assigned to
    world.costs.call.read_ns += 1  #! of a Calls cannot be assigned to
    world.costs.by_size[0] = a  #! an entry of the column Costs.by_size cannot be assigned to
    world.limits.most = a  #! the member most of a Limits cannot be assigned to


def changes_a_column_it_is_given(column, a):
    column[0] = a


def two_types(world, a):
    b = world.rows[0]
    b = a  #! b is a Row and then an int
    return 1
