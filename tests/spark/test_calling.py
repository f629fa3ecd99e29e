"""What a worker makes of a user's function: a value or an error for every row, and never an exception."""

from __future__ import annotations

import math
import operator
import os
import pickle
import signal
import sys
import time
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.language.functions.python_functions import VERSION
from penstock.spark.functions import child_processes as in_child
from penstock.spark.functions.udaf_worker import UdafWorker
from penstock.spark.functions.udf_worker import UdfWorker

DOUBLES = pa.float64()


def calling(function: Any, returns: pa.DataType = DOUBLES, *, vectorised: bool = False) -> UdfWorker:
    """Call a function of this module without a worker."""
    return UdfWorker("f", pickle.dumps(function), VERSION, vectorised, returns)


def outcome(called: UdfWorker, *arguments: list[Any] | pa.Array) -> tuple[list[Any], list[str | None]]:
    arrays = [a if isinstance(a, pa.Array) else pa.array(a) for a in arguments]
    found = called(*arrays)
    assert len(found) == len(arrays[0])
    assert found.type.field("value").type == called.returns
    return found.field("value").to_pylist(), found.field("error").to_pylist()


def divided(a: Any, b: Any) -> Any:
    return a / b


def divided_arrays(a: pa.Array, b: pa.Array) -> pa.Array:
    return pc.divide(a, b)


def handed(a: Any) -> Any:
    return a


def leaving(a: Any) -> Any:
    sys.exit(f"left. at {a}\nnow")


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def mute(a: Any) -> Any:
    raise Mute


def ones(a: pa.Array) -> pa.Array:
    return pa.array([1.0])


def listed(a: pa.Array) -> Any:
    return a.to_pylist()


def texts(a: pa.Array) -> pa.Array:
    return a.cast(pa.string())


def test_each_row_has_its_value_or_its_error() -> None:
    values, errors = outcome(calling(divided), [6.0, 1.0, None], [3.0, 0.0, 2.0])
    assert values == [2.0, None, None]
    assert errors[:2] == [None, "f() failed: ZeroDivisionError: float division by zero"]
    assert "f() failed: TypeError" in str(errors[2])  # NULL is None


@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_a_vectorised_function_fails_on_the_rows_it_fails_on(count: int) -> None:
    a, b = list(range(count)), [n % 5 for n in range(count)]
    values, errors = outcome(calling(divided_arrays, pa.int64(), vectorised=True), a, b)
    assert values == [x // y if y else None for x, y in zip(a, b, strict=True)]
    assert [error is None for error in errors] == [y != 0 for y in b]
    assert errors[0] == "f() failed: ArrowInvalid: divide by zero"


def test_no_rows_are_no_call() -> None:
    assert outcome(calling(leaving), pa.array([], DOUBLES)) == ([], [])
    assert outcome(calling(leaving, vectorised=True), pa.array([], DOUBLES)) == ([], [])


def test_whatever_is_raised_is_told_in_one_line() -> None:
    assert outcome(calling(leaving), [1.0])[1] == ["f() failed: SystemExit: left; at 1.0 now"]
    assert outcome(calling(mute), [1.0])[1] == ["f() failed: Mute"]


@pytest.mark.parametrize(
    ("returns", "good", "bad"),
    [
        (pa.int64(), 7, "7"),
        (pa.int64(), 7, 1.5),
        (pa.int64(), 7, 1 << 63),
        (pa.bool_(), True, 1),
        (pa.string(), "a", 1),
        (pa.float64(), math.inf, "inf"),
        (pa.decimal128(4, 1), Decimal("1.5"), Decimal("1.55")),
        (pa.list_(pa.int64()), [1, None], {"a": 1}),
    ],
)
def test_a_value_of_another_type_is_an_error(returns: pa.DataType, good: Any, bad: Any) -> None:
    one = calling(list, returns)
    values, errors = one.checked([good, bad, None], [None, None, None])
    assert (values.to_pylist(), errors.to_pylist()[::2]) == ([good, None, None], [None, None])
    assert errors[1].as_py() == f"f() returned {type(bad).__name__} {bad!r}, which is not of type {returns}"


def test_a_value_that_does_not_fit_harms_no_other_row() -> None:
    values, errors = outcome(calling(handed, pa.int8()), [1, 1000, 3])
    assert values == [1, None, 3]
    assert errors == [None, "f() returned int 1000, which is not of type int8", None]


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (ones, "ValueError: it returned 1 values for 2 rows"),
        (listed, "TypeError: it returned list, not a pyarrow Array"),
        (texts, "TypeError: it returned an array of string, which is not of type double"),
    ],
)
def test_a_vectorised_function_returns_one_array_of_its_type(function: Any, says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says.split(": ", 1)[1]):
        calling(function, vectorised=True).fitted(function(pa.array([1.0, 2.0])), 2)


def test_rows_whose_argument_failed_are_not_called() -> None:
    attempted = pa.array([{"#v": 1.0}, None, {"#v": None}, {"#v": 4.0}], pa.struct([("#v", DOUBLES)]))
    values, errors = outcome(calling(divided), attempted, [1.0, 0.0, 1.0, 2.0])
    assert (values, errors[:2], errors[3]) == ([1.0, None, None, 2.0], [None, ""], None)
    assert "TypeError" in str(errors[2])


def test_code_that_cannot_be_loaded_is_an_error_of_every_row() -> None:
    old = UdfWorker("f", pickle.dumps(divided), "3.0", False, DOUBLES)
    why = f"it was registered under Python 3.0, but this is {VERSION}; register it again"
    says = f"f() cannot be loaded: RuntimeError: {why}"
    assert outcome(old, [1.0, 2.0], [1.0, 2.0]) == ([None, None], [says, says])
    torn = UdfWorker("f", b"torn", VERSION, True, DOUBLES)
    assert "f() cannot be loaded: UnpicklingError" in str(outcome(torn, [1.0])[1][0])


def summed(state: Any, more: Any) -> Any:
    return state + more


def year(a: Any) -> Any:
    return a.year


FAR = pa.array([-62_135_596_800_000_001, 0], pa.int64()).cast(pa.timestamp("us", tz="UTC"))


def test_a_year_that_python_has_not_fails_its_row_alone() -> None:
    values, errors = outcome(calling(year, pa.int32()), FAR)
    assert values == [None, 1970]
    assert errors == ["f() failed: OverflowError: date value out of range", None]
    no_text = pa.array([b"\xff", b"a"], pa.binary()).view(pa.string())
    values, errors = outcome(calling(handed, pa.string()), no_text)
    assert values == [None, "a"]
    assert str(errors[0]).startswith("f() failed: UnicodeDecodeError")


def test_a_year_that_python_has_not_fails_its_state_alone() -> None:
    lists = pa.ListArray.from_arrays([0, 1, 2, 2], pa.StructArray.from_arrays([FAR], ["a"]))
    states = UdafWorker("f", pickle.dumps((year, summed)), VERSION)(lists).to_pylist()
    assert pickle.loads(states[0]) == (None, "failed on a row: OverflowError: date value out of range")
    assert pickle.loads(states[1]) == (1970, None)
    assert states[2] is None


# -- in children of the worker ---------------------------------------------------------------------------------------


def ending_on_threes(a: Any) -> Any:
    if a == 3:
        os._exit(7)
    if a == 33:
        os.kill(os.getpid(), signal.SIGKILL)
    if a == 333:
        raise ValueError("three")
    return float(a)


def ending_arrays(a: pa.Array) -> pa.Array:
    return pa.array([ending_on_threes(x) for x in a.to_pylist()])


def sleeping_on_threes(a: Any) -> Any:
    time.sleep(1_000 if a == 3 else 0)
    return float(a)


def sleeping_arrays(a: pa.Array) -> pa.Array:
    return pa.array([sleeping_on_threes(x) for x in a.to_pylist()])


def odd_objects(a: Any) -> Any:
    return lambda: a


@pytest.mark.parametrize("vectorised", [False, True])
def test_a_function_that_ends_its_process_is_charged_with_the_rows_it_does_so_on(vectorised: bool) -> None:
    function = ending_arrays if vectorised else ending_on_threes
    apart = replace(calling(function, vectorised=vectorised), apart=True)
    values, errors = outcome(apart, [1, 2, 3, 4, 33, 5, 333, 6])
    assert values == [1.0, 2.0, None, 4.0, None, 5.0, None, 6.0]
    ended = "f() ended its process, "
    assert errors[2] == ended + "with exit code 7"
    assert errors[4] == ended + "by signal SIGKILL"
    assert errors[6] == "f() failed: ValueError: three"
    assert [error for place, error in enumerate(errors) if place not in (2, 4, 6)] == [None] * 5
    assert outcome(apart, pa.array([], pa.int64())) == ([], [])


@pytest.mark.parametrize("vectorised", [False, True])
def test_a_function_that_never_returns_is_given_up(vectorised: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_child, "LIMIT_S", 1.5)
    monkeypatch.setattr(in_child, "ROW_S", 0.0)
    function = sleeping_arrays if vectorised else sleeping_on_threes
    values, errors = outcome(replace(calling(function, vectorised=vectorised), apart=True), [1, 2, 3, 4])
    assert values == ([None] * 4 if vectorised else [1.0, 2.0, None, None])
    assert set(errors) - {None} == {"f() did not return within 1.5 s"}


@pytest.mark.parametrize("vectorised", [False, True])
def test_a_function_that_always_ends_its_process_costs_few_processes(
    vectorised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    forks: list[int] = []
    fork = os.fork

    def noted() -> int:
        forks.append(1)
        return fork()

    monkeypatch.setattr(os, "fork", noted)
    function = ending_arrays if vectorised else ending_on_threes
    values, errors = outcome(replace(calling(function, vectorised=vectorised), apart=True), [3] * 5_000)
    assert values == [None] * 5_000
    assert set(errors) == {"f() ended its process, with exit code 7"}
    assert len(forks) < 60


def test_values_that_cannot_leave_a_child_have_another_type() -> None:
    _, (error,) = outcome(replace(calling(odd_objects), apart=True), [1])
    assert error is not None
    assert error.startswith("f() returned function <function odd_objects")


def test_an_aggregate_that_ends_its_process_is_charged_with_its_lists() -> None:
    lifting = UdafWorker("f", pickle.dumps((ending_on_threes, operator.add)), VERSION, apart=True)
    lists = pa.array([[{"a": 1}, {"a": 2}], [{"a": 3}], [], [{"a": 5}]])
    found = [None if one is None else pickle.loads(one) for one in lifting(lists).to_pylist()]
    assert found == [(3.0, None), (None, "ended its process, with exit code 7"), None, (5.0, None)]
