"""While a batch is taken, old objects are let alone; who has time looks at all, at least now and then."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from penstock.model import garbage_collection
from penstock.model.garbage_collection import GarbageCollection


class Knot:
    """An object that only a full collection finds to be of no use."""

    def __init__(self) -> None:
        self.own = self


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    gc.enable()
    gc.unfreeze()


def old_knot() -> weakref.ref[Knot]:
    knot = Knot()
    gc.collect()  # by now it is old
    return weakref.ref(knot)


def test_old_objects_are_let_alone_until_all_who_asked_for_it_are_done() -> None:
    garbage, knot = GarbageCollection(), old_knot()
    with garbage.put_off():
        with garbage.put_off():
            assert gc.get_freeze_count() > 0
        gc.collect()
        assert knot() is not None
        new = weakref.ref(Knot())
        gc.collect()
        assert new() is None
    assert gc.get_freeze_count() == 0
    gc.collect()
    assert knot() is None


def test_what_comes_during_long_work_can_be_let_alone_too_and_is_looked_at_after_it() -> None:
    garbage = GarbageCollection()
    with garbage.put_off(then_catch_up=True):
        new = weakref.ref(Knot())
        garbage.renew()
        gc.collect()
        assert new() is not None
    assert new() is None


def test_all_objects_are_looked_at_when_it_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    garbage, knot = GarbageCollection(), old_knot()
    garbage.catch_up()
    assert knot() is not None  # it is not due
    monkeypatch.setattr(garbage_collection, "EVERY_S", 0.0)
    with garbage.put_off():
        garbage.catch_up()
        assert knot() is None
        assert gc.get_freeze_count() > 0


def test_who_never_has_time_looks_at_all_objects_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    garbage, knot = GarbageCollection(), old_knot()
    monkeypatch.setattr(garbage_collection, "EVERY_S", 0.0)
    with garbage.put_off():
        pass
    assert knot() is not None
    monkeypatch.setattr(garbage_collection, "LATEST_S", 0.0)
    with garbage.put_off():
        pass
    assert knot() is None


def test_a_program_that_freezes_objects_itself_is_let_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage_collection, "EVERY_S", 0.0)
    garbage, knot = GarbageCollection(), old_knot()
    gc.freeze()
    frozen = gc.get_freeze_count()
    with garbage.put_off():
        garbage.catch_up()
    assert frozen - 1_000 < gc.get_freeze_count() <= frozen  # some of these may have ended by themselves
    assert knot() is not None


def test_a_program_that_has_switched_collections_off_is_let_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage_collection, "EVERY_S", 0.0)
    garbage, knot = GarbageCollection(), old_knot()
    gc.disable()
    with garbage.put_off(then_catch_up=True):
        assert gc.get_freeze_count() == 0
    assert knot() is not None
