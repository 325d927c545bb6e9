"""The lists of integers and their enumerations: one list each."""

import pytest

from dispatchsim.sim.state.kinds import (
    Activity,
    Count,
    Occurrence,
    Stage,
    Status,
    activity,
    count,
    occurrence,
    stage,
    status,
)


def test_an_enumeration_has_the_names_and_numbers_of_its_list() -> None:
    assert [(member.name, int(member)) for member in Stage] == [
        ("NONE", 0), ("HALF_OPEN", 1), ("QUEUED", 2), ("ACCEPTED", 3), ("CLOSED", 4),
        ("CALLING", 5), ("BY_COOKIE", 6), ("EXPIRED", 7),
    ]  # fmt: skip
    assert (Activity(3).name, activity.READ) == ("READ", 3)
    assert (Count(41).name, count.LATE) == ("LATE", 41)
    assert (Occurrence(35).name, occurrence.END_OF_STEP) == ("END_OF_STEP", 35)
    assert (Status(8).name, status.PORTS) == ("PORTS", 8)


@pytest.mark.parametrize("numbers_of", [activity, count, stage])
def test_rows_of_an_array_are_numbered_without_a_gap(numbers_of: object) -> None:
    numbers = [value for key, value in vars(numbers_of).items() if key.isupper()]
    assert numbers == list(range(len(numbers)))


@pytest.mark.parametrize("numbers_of", [activity, count, occurrence, stage, status])
def test_no_number_stands_for_two_things(numbers_of: object) -> None:
    numbers = [value for key, value in vars(numbers_of).items() if key.isupper()]
    assert all(type(number) is int for number in numbers)
    assert len(set(numbers)) == len(numbers)
