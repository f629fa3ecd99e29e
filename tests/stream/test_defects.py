"""A defect in the partials or answers of some queries pauses these: the others go on, and the folder opens again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import QueryFailed, Unsupported
from penstock.evaluate.components import value_tables
from penstock.evaluate.components.sketches import Sketch
from penstock.evaluate.finishing import Finisher
from penstock.evaluate.functions.bound import BoundAggregate
from penstock.evaluate.groups import Groups
from penstock.evaluate.windows.lanes import DenseLane, ScanLane
from penstock.evaluate.windows.lazy_state_tree import LazyStateTree
from penstock.kernel.emit_changes import EmitChanges
from penstock.kernel.revisions import Revisions
from penstock.spark.answers import finish
from penstock.spark.job.partials import PartialsJob
from penstock.store import executor_state as spread
from penstock.stream.derived import row_times as rulers
from penstock.testing import TestBed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("interpreted")
COLUMNS = "ts TIMESTAMP, k STRING, g INT, v BIGINT"
WINDOW = "[RANGE 4 s SLIDE 2 s]"
LATE = "WITH (late = 'revise', revise_for = '6 s')"

GOOD = {
    "all": f"SELECT sum(v) AS total, count(DISTINCT v) AS n FROM r {WINDOW}",
    "by k": f"SELECT k, max(v) AS m, median(v) AS mid FROM r {WINDOW} GROUP BY k",
    "some": f"SELECT g, count(*) AS n FROM r {WINDOW} WHERE v > 3 GROUP BY g",
    "spelled": f"SELECT g, hex(sum(v)) AS h FROM r {WINDOW} GROUP BY g",  # only Spark computes it
    "revised": f"SELECT g, sum(v) AS total FROM r {WINDOW} GROUP BY g {LATE}",
    "changed": f"SELECT g, min(v) % 3 AS least FROM r {WINDOW} GROUP BY g WITH (emit = 'change')",
    "rows": "SELECT sum(v) AS total FROM r [ROWS 7 SLIDE 5]",
}
# Each of them meets a defect of its own; conditions keep them from sharing lanes with others.
BAD = {
    "read": f"SELECT count(DISTINCT k) AS n FROM r {WINDOW} WHERE v > -1",
    "added": f"SELECT g, approx_percentile(v, 0.5) AS p FROM r {WINDOW} WHERE v > -2 GROUP BY g",
    "merged": f"SELECT k, approx_count_distinct(v) AS n FROM r {WINDOW} WHERE v > -3 GROUP BY k",
    "expired": f"SELECT approx_top_k(k, 2) AS t FROM r {WINDOW} WHERE v > -4",
    "numbered": f"SELECT k, g, sum(v) AS total FROM r {WINDOW} WHERE v > -5 GROUP BY k, g",
    "lowered": f"SELECT mode(v) AS m FROM r {WINDOW} WHERE v > -6",
    "finished": f"SELECT sum(v) AS finish_me FROM r {WINDOW} WHERE v > -7",
    "finished by spark": f"SELECT g, md5(string(sum(v))) AS h FROM r {WINDOW} WHERE v > -8 GROUP BY g",
    "revising": f"SELECT k, sum(v) AS total FROM r {WINDOW} WHERE v > -9 GROUP BY k {LATE}",
    "remembered": f"SELECT g, max(v) AS m FROM r {WINDOW} WHERE v > -10 GROUP BY g {LATE}",
    "said": f"SELECT g, max(v) AS m FROM r {WINDOW} WHERE v > -11 GROUP BY g WITH (emit = 'change')",
    "rows merged": "SELECT k, approx_count_distinct(v) AS n FROM r [ROWS 6 SLIDE 3] WHERE v > -12 GROUP BY k",
    "rows dated": "SELECT g, sum(v) AS total FROM r [ROWS 6 SLIDE 3] WHERE v > -13 GROUP BY g",
}


PLACES = ["with_times", "kept_rows", "take_finished", "add", "changed", "expire", "finish", "lower", "merge", "note"]
PLACES += ["number", "read_tables"]


class Defect(RuntimeError):
    """What nobody foresaw."""


@contextmanager
def defects(bed: TestBed) -> Iterator[None]:
    """Let each bad query meet its defect."""
    ids = {name: bed.engine.catalog.query(name).id for name in BAD if bed.engine.catalog.has("query", name)}

    def holds(lane: Any, kind: str) -> bool:
        return any(component.kind == kind for component in lane.components)

    def of(table: Any, name: str) -> bool:
        return ids.get(name) in table["#definition" if "#definition" in table.column_names else 0].to_pylist()

    places: list[tuple[Any, str, Callable[..., bool]]] = [
        (value_tables, "read_tables", lambda component, column: not component.of_numbers),
        (DenseLane, "add", lambda lane, *_: holds(lane, "kll")),
        (LazyStateTree, "merge", lambda cascade, *_: cascade.component.kind == "hll"),
        (DenseLane, "expire", lambda lane, *_: holds(lane, "items")),
        (Groups, "number", lambda groups, *_: len(groups.types) == 2),
        (BoundAggregate, "lower", lambda bound, *_: bound.aggregate.function == "mode"),
        (Finisher, "finish", lambda finisher, *_: finisher.typed.query.outputs[0].name == "finish_me"),
        (finish, "take_finished", lambda rows, request, *_: "md5" in str(request.outputs)),
        (Revisions, "changed", lambda revisions, definition, *_: definition == ids.get("revising")),
        (Revisions, "note", lambda revisions, table, *_: of(table, "remembered")),
        (EmitChanges, "kept_rows", lambda said, table, *_: of(table, "said")),
        (rulers, "with_times", lambda table, *_: of(table, "rows dated")),
    ]
    with pytest.MonkeyPatch.context() as patch:
        for place, name, when in places:
            patch.setattr(place, name, broken(getattr(place, name), name, when))
        yield


def broken(does: Callable[..., Any], name: str, when: Callable[..., bool]) -> Callable[..., Any]:
    def raising(*given: Any, **how: Any) -> Any:
        if when(*given, **how):
            raise Defect(f"in {name}")
        return does(*given, **how)

    return raising


def rows(first: int, last: int) -> list[dict[str, Any]]:
    """Make rows of some seconds; each second but the first few brings one that is late."""
    found = [
        {"ts": second + part / 5, "k": f"k{part % 3}", "g": second % 2, "v": (7 * second + part) % 11}
        for second in range(first, last)
        for part in range(4)
    ]
    return [*found, {"ts": first - 2.5, "k": "k1", "g": 1, "v": 5}] if first > 4 else found


BATCHES = ((0, 3), (3, 6), (6, 8), (8, 11), (11, 14), (14, 17))


def opened(spark: SparkSession, state: Path, **options: Any) -> TestBed:
    return TestBed(spark, state=state, **options)


@pytest.fixture(scope="module")
def expected(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    with opened(spark, tmp_path_factory.mktemp("sound")) as bed:
        bed.stream("r", COLUMNS)
        for name, text in {**GOOD, **BAD}.items():
            bed.query(name, text)
        for batch in BATCHES:
            bed.feed("r", rows(*batch))
        return {name: bed.timeline(name) for name in (*GOOD, *BAD)}


def test_each_defect_pauses_its_query_alone(
    spark: SparkSession, tmp_path: Path, expected: dict[str, list[Any]], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "penstock")
    bed = opened(spark, tmp_path)
    bed.stream("r", COLUMNS)
    for name, text in {**GOOD, **BAD}.items():
        bed.query(name, text)
    bed.feed("r", rows(*BATCHES[0]))
    with defects(bed):
        for batch in BATCHES[1:3]:
            bed.feed("r", rows(*batch))
        assert {name: (bed.paused(name) or "")[:20] for name in BAD} == dict.fromkeys(BAD, "a defect of Penstock")
        told = {record.getMessage().split(",")[0] for record in caplog.records if record.exc_info}
        assert told == {f"Defect: in {place}" for place in PLACES}
        assert all("Traceback" in str(record.exc_info[1]) for record in caplog.records if record.exc_info)
        assert not any("Traceback" in report for report in bed.reports("r"))
        bed.close()
        bed = opened(spark, tmp_path)  # whatever broke
        bed.feed("r", rows(*BATCHES[3]))
        with pytest.raises(QueryFailed, match="a defect of Penstock"):
            bed.ask("SELECT mode(v) AS m FROM r [RANGE 2 s] WHERE v > -6")
        bed.engine.drop_query("expired")
    bed.close()
    bed = opened(spark, tmp_path)  # mended
    for name in BAD:
        if name != "expired":
            assert bed.paused(name)
            bed.engine.resume_query(name)
            assert bed.paused(name) is None
    for batch in BATCHES[4:]:
        bed.feed("r", rows(*batch))
    for name in GOOD:
        assert bed.paused(name) is None
        assert bed.timeline(name) == expected[name], name
    for name in (name for name in BAD if name != "expired"):
        found, wanted = bed.timeline(name), expected[name]
        if name != "said":  # what was last said of a group is older
            assert found[-1:] == wanted[-1:], name
        if name not in ("revising", "remembered", "said"):  # late rows have not revised what was answered before
            assert [row for row in wanted if row in found] == found, name
    bed.close()


def test_a_defect_in_executors_pauses_its_query_alone(
    spark: SparkSession, tmp_path: Path, expected: dict[str, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spread, "BUCKETS", 3)
    monkeypatch.setattr(Sketch, "lift_state", lambda *_: "max(cast('no sketch' as binary))")
    bed = opened(spark, tmp_path, max_driver_groups=2)
    bed.stream("r", COLUMNS)
    for name in ("all", "by k"):
        bed.query(name, GOOD[name])
    bed.query("bad", BAD["merged"])
    for batch in BATCHES[:3]:
        bed.feed("r", rows(*batch))
    assert bed.engine.stream("r").pipeline.groupings.spread
    assert "a defect of Penstock" in (bed.paused("bad") or "")
    bed.close()
    bed = opened(spark, tmp_path, max_driver_groups=2)
    bed.engine.resume_query("bad")
    bed.feed("r", rows(*BATCHES[3]))
    assert "a defect of Penstock" in (bed.paused("bad") or "")
    bed.engine.drop_query("bad")
    for batch in BATCHES[4:]:
        bed.feed("r", rows(*batch))
    for name in ("all", "by k"):
        assert bed.paused(name) is None
        assert bed.timeline(name) == expected[name]
    bed.close()


def when_kind(kind: str) -> Callable[..., bool]:
    return lambda lane, *_, **__: any(component.kind == kind for component in lane.components)


@pytest.mark.soak
def test_a_defect_found_when_the_folder_is_opened_pauses_its_query_alone(
    spark: SparkSession, tmp_path: Path, expected: dict[str, list[Any]]
) -> None:
    with opened(spark, tmp_path) as bed:
        bed.stream("r", COLUMNS)
        for name, text in {**GOOD, **BAD}.items():
            bed.query(name, text)
        for batch in BATCHES[:3]:
            bed.feed("r", rows(*batch))
        known = bed
    with defects(known), opened(spark, tmp_path) as bed:
        found = {name for name in BAD if bed.paused(name)}
        assert {"read", "added", "numbered", "remembered", "said"} <= found
        for batch in BATCHES[3:]:
            bed.feed("r", rows(*batch))
        for name in GOOD:
            assert bed.paused(name) is None
            assert bed.timeline(name) == expected[name], name


@pytest.mark.soak
@pytest.mark.parametrize("place", ["add", "evaluate", "expire"])
def test_streams_made_of_others_and_rows_apart_go_on(spark: SparkSession, tmp_path: Path, place: str) -> None:
    """A query over answers, and one over rows numbered apart, meet the defect; those beside them do not."""
    apart = "[PARTITION BY k ROWS 3 SLIDE 2]"

    def run(state: Path, bad: bool) -> dict[str, Any]:
        bed = opened(spark, state)
        bed.stream("r", COLUMNS)
        bed.engine.execute(f"CREATE STREAM bars AS SELECT g, sum(v) AS total FROM r {WINDOW} GROUP BY g")
        bed.query("over bars", "SELECT g, max(total) AS m FROM bars [RANGE 6 s SLIDE 2 s] GROUP BY g")
        bed.query("bad bars", "SELECT approx_count_distinct(total) AS n FROM bars [RANGE 6 s SLIDE 2 s] WHERE g < 9")
        bed.query("apart", f"SELECT k, sum(v) AS total FROM r {apart} GROUP BY k")
        bed.query("bad apart", f"SELECT k, g, approx_count_distinct(v) AS n FROM r {apart} GROUP BY k, g")
        bed.feed("r", rows(*BATCHES[0]))
        with pytest.MonkeyPatch.context() as patch:
            for lane in (DenseLane, ScanLane) if bad else ():
                name = "keep" if lane is ScanLane and place == "expire" else place
                patch.setattr(lane, name, broken(getattr(lane, name), name, when_kind("hll")))
            for batch in BATCHES[1:4]:
                bed.feed("r", rows(*batch))
            if bad:
                assert "a defect of Penstock" in (bed.paused("bad bars") or "")
            bed.close()
            bed = opened(spark, state)
            bed.feed("r", rows(*BATCHES[4]))
        if bad:
            bed.engine.resume_query("bad bars")
            with pytest.raises(Unsupported, match="cannot be resumed"):
                bed.engine.resume_query("bad apart")
        bed.feed("r", rows(*BATCHES[5]))
        answered = {name: bed.timeline(name) for name in ("over bars", "apart", "bad bars", "bad apart")}
        paused = {name for name in answered if bed.paused(name)}
        bed.close()
        return {"paused": paused, **answered}

    sound, found = run(tmp_path / "sound", bad=False), run(tmp_path / "broken", bad=True)
    assert sound["paused"] == set()
    assert found["paused"] == {"bad apart"}
    for name in ("over bars", "apart"):
        assert found[name] == sound[name]
    for name in ("bad bars", "bad apart"):
        assert [row for row in sound[name] if row in found[name]] == found[name]


@pytest.mark.soak
def test_a_past_that_breaks_a_lane_pauses_the_queries_of_the_lane_alone(spark: SparkSession, tmp_path: Path) -> None:
    with opened(spark, tmp_path) as bed:
        bed.stream("r", COLUMNS, retain_rows="1 d")
        bed.query("by k", GOOD["by k"])
        bed.query("old", f"SELECT g, count(*) AS n FROM r {WINDOW} GROUP BY g")
        for batch in BATCHES[:2]:
            bed.feed("r", rows(*batch))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(DenseLane, "add", broken(DenseLane.add, "add", when_kind("hll")))
            bed.query(
                "new", f"SELECT g, approx_count_distinct(v) AS n FROM r {WINDOW} GROUP BY g WITH (from = 'beginning')"
            )
            bed.feed("r", rows(*BATCHES[2]))
            assert "a defect of Penstock" in (bed.paused("new") or "")
            assert "a defect of Penstock" in (bed.paused("old") or "")  # they share a lane
        assert bed.paused("by k") is None
        for name in ("new", "old"):
            bed.engine.resume_query(name)
        for batch in BATCHES[3:]:
            bed.feed("r", rows(*batch))
        assert [bed.paused(name) for name in ("new", "old", "by k")] == [None] * 3
        assert [row[:2] for row in bed.timeline("new")] == [row[:2] for row in bed.timeline("old")][
            -len(bed.timeline("new")) :
        ]
        assert bed.timeline("new")


def test_a_defect_in_the_job_is_raised_at_once_and_not_taken_for_a_row_that_fails(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def broken(*_: Any, **__: Any) -> None:
        tried.append(1)
        raise KeyError("ours")

    with TestBed(spark) as bed:
        bed.stream("s", "ts TIMESTAMP, v INT")
        bed.query("q", "SELECT sum(6 div v) AS x FROM s [RANGE 2 s SLIDE 2 s]")
        with monkeypatch.context() as patch:
            patch.setattr(PartialsJob, "run", broken)
            with pytest.raises(KeyError, match="ours"):
                bed.feed("s", [{"ts": 0, "v": 1}])
        assert tried == [1]
        assert bed.paused("q") is None
        bed.feed("s", [{"ts": 0, "v": 1}, {"ts": 2, "v": 1}])
        assert bed.answers("q")
