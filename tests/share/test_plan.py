"""Queries become a plan that can be read: who shares which slices, partials, conditions and columns."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from textwrap import dedent
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from penstock.engine import Engine
from penstock.errors import EnvironmentProblem
from penstock.evaluate.typed import Definition
from penstock.model.strategy import STRATEGY_NAMES, strategy_named
from penstock.model.window import RowsWindow, Window
from penstock.share.explain.explain import explain_plan
from penstock.share.explain.explanation import window_dict
from penstock.share.layout import lay_out
from penstock.share.plan import BITS_PER_WORD, Strategy, condition_of, plan_queries
from penstock.testing import TestBed
from tests.stream.made import definition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRADES = pa.schema(
    [("ts", pa.timestamp("us", tz="UTC")), ("symbol", pa.string()), ("price", pa.float64()), ("volume", pa.int32())]
)
LISTING = pa.schema([("symbol", pa.string()), ("r2000", pa.bool_())])
QUERIES = {
    "a": "SELECT sum(price * volume) AS value FROM trades [RANGE 12 MIN SLIDE 5 MIN]",
    "b": "SELECT avg(price) AS p FROM trades [RANGE 10 MIN SLIDE 2 MIN] WHERE volume > 50000",
    "c": "SELECT count(*) AS n FROM trades [RANGE 12 MIN SLIDE 5 MIN]",
    "d": "SELECT symbol, max(price) AS hi FROM trades [RANGE 60 s SLIDE 60 s OFFSET 7 s] JOIN listing USING (symbol) "
    "WHERE listing.r2000 GROUP BY symbol HAVING count(*) > 10",
}


@pytest.fixture
def engine(spark: SparkSession) -> Iterator[Engine]:
    with TestBed(spark) as bed:
        bed.stream("trades", TRADES)
        bed.table("listing", LISTING.empty_table())
        yield bed.engine


def defined(engine: Engine, *texts: str) -> tuple[Definition, ...]:
    return tuple(engine.create_query(f"q{number}", text).definition for number, text in enumerate(texts, 1))


def explained(engine: Engine, strategy: Strategy = "shared paired") -> str:
    version, definitions = engine.catalog.snapshot("trades")
    join = {j.id: j.id.split("#")[1] for d in definitions for j in d.query.joins}
    text = str(explain_plan("trades", definitions, strategy, version))
    for name, number in join.items():  # a hash of table and keys
        text = text.replace(name, name.replace(number, "id"))
    return text


def test_a_shared_plan_reads_as_one_tree(engine: Engine) -> None:
    for name, text in QUERIES.items():
        engine.create_query(name, text)
    # edges in ten minutes: 0 3 5 8 (12/5), 0 2 4 6 8 (10/2), and ten times 7 s past the minute: 17
    assert explained(engine) == dedent("""\
        stream trades: 4 queries, shared paired, 1 tree, 1,000 rows/s assumed
          join listing on `symbol`  (listing#id)
          tree all: 4 queries, 3 windows, paired slices
            edges 0.02833 per second (one every 35.3 s), found by arithmetic over 4 progressions
            group by (): partials count(*), float(`price` * `volume`), count(`price`), float(`price`)
              every row: a [RANGE 12 min SLIDE 5 min], c [RANGE 12 min SLIDE 5 min]
              `volume` > 50000: b [RANGE 10 min SLIDE 2 min]
              attribute once, whatever matches in listing (flag): a, c, b
              attribute `volume` (1 constant): b
              fragments of 2 conditions on once, whatever matches in listing, `volume`: 5 cells, 2 fragments
              predicates: 2 places looked up a row instead of 4 tests
            group by `symbol`: partials count(*), max(`price`)
              inner join listing and `listing#id.r2000`: d [RANGE 1 min SLIDE 1 min OFFSET 7 s]
          operations per second (slice scan): 2,000 as planned, 4,000 with every query alone (2.0 times)
          run together by C-LP: nearly nothing is saved for 4 queries""")


def test_an_unshared_plan_reads_as_a_tree_for_each_query(engine: Engine) -> None:
    for name in ("a", "b"):
        engine.create_query(name, QUERIES[name])
    assert explained(engine, "unshared paned") == dedent("""\
        stream trades: 2 queries, unshared paned, 2 trees, 1,000 rows/s assumed
          tree q1: 1 query, 1 window, paned slices
            edges 0.01667 per second (one every 1 min), found by division by 1 min
            group by (): partials count(*), float(`price` * `volume`)
              every row: a [RANGE 12 min SLIDE 5 min]
          tree q2: 1 query, 1 window, paned slices
            edges 0.008333 per second (one every 2 min), found by division by 2 min
            group by (): partials count(*), count(`price`), float(`price`)
              `volume` > 50000: b [RANGE 10 min SLIDE 2 min]
          operations per second (slice scan): 2,000 as planned, 2,000 with every query alone (1.0 times)
          run together by C-LP: nearly nothing is saved for 2 queries""")


def test_a_plan_by_fragments_reads_as_a_tree_for_each_window(engine: Engine) -> None:
    for name in ("a", "b", "c"):
        engine.create_query(name, QUERIES[name])
    engine.create_query("e", QUERIES["b"].replace("10 MIN SLIDE 2 MIN", "12 MIN SLIDE 5 MIN"))
    assert explained(engine, "fragments") == dedent("""\
        stream trades: 4 queries, fragments, 2 trees, 1,000 rows/s assumed
          tree [RANGE 12 min SLIDE 5 min]: 3 queries, 1 window, paired slices
            edges 0.006667 per second (one every 2.5 min), found by division by 1 min
            group by (): partials count(*), float(`price` * `volume`), count(`price`), float(`price`)
              every row: a [RANGE 12 min SLIDE 5 min], c [RANGE 12 min SLIDE 5 min]
              `volume` > 50000: e [RANGE 12 min SLIDE 5 min]
              attribute `volume` (1 constant): e
              fragments of 2 conditions on `volume`: 3 cells, 2 fragments
              predicates: 1 place looked up a row instead of 1 test
          tree [RANGE 10 min SLIDE 2 min]: 1 query, 1 window, paired slices
            edges 0.008333 per second (one every 2 min), found by division by 2 min
            group by (): partials count(*), count(`price`), float(`price`)
              `volume` > 50000: b [RANGE 10 min SLIDE 2 min]
          operations per second (slice scan): 2,000 as planned, 4,000 with every query alone (2.0 times)
          run together by C-LP: nearly nothing is saved for 4 queries""")


def test_a_plan_says_where_running_together_pays(engine: Engine) -> None:
    engine.create_query("sum", "SELECT sum(volume) AS n FROM trades [RANGE 10 s SLIDE 10 s]")
    for minutes in (1, 5):
        distinct = f"SELECT approx_count_distinct(symbol) AS n FROM trades [RANGE {minutes} MIN SLIDE 1 MIN]"
        engine.create_query(f"distinct{minutes}", distinct)
    engine.create_query("spark", "SELECT xxhash64(count(*)) AS n FROM trades [RANGE 10 s SLIDE 10 s]")
    engine.set_synchronization("CS")
    lines = str(engine.explain()).splitlines()
    lane = (
        "one pass over slices serves 2 queries, one job of Spark finishes 1 query, nearly nothing is saved for 1 query"
    )
    assert lines[-1] == f"  run together by CS: {lane}"
    assert f"        run together, {lane}" in lines
    told = engine.explain().to_dict()["streams"][0]
    counts = {"sweep": 2, "executors": 0, "Spark": 1, "nothing": 1}
    assert told["run_together"] == {"technique": "CS", "queries": counts}
    assert told["trees"][0]["groupings"][0]["conditions"][0]["together"] == counts


def test_strategies_have_the_paper_s_names_too(spark: SparkSession) -> None:
    for name in ("shared paired", "shards", "unshared paired", "unshared", "fragments"):
        with TestBed(spark, strategy=name) as bed:
            assert bed.engine.strategy == strategy_named(name)
    assert [strategy_named(name) for name in ("shards", "unshared")] == ["shared paired", "unshared paired"]
    with pytest.raises(EnvironmentProblem, match='there is no strategy "shard"') as raised:
        Engine(spark=spark, strategy="shard")  # type: ignore[arg-type]
    assert raised.value.hint == 'Did you mean "shards"?'
    assert all(name in str(raised.value.detail) for name in STRATEGY_NAMES)


def test_a_plan_without_queries_is_one_line(engine: Engine) -> None:
    assert str(engine.explain()) == "stream trades: 0 queries, weave, 0 trees, 1,000 rows/s assumed"


def test_an_engine_and_a_query_print_as_one_useful_line(engine: Engine) -> None:
    engine.create_query("a", QUERIES["a"])
    assert repr(engine) == "<Engine: 1 stream, 1 query, no state folder, not running>"
    printed = str(engine.catalog.query("a"))
    assert printed.startswith('query "a" (definition ')
    assert "FROM trades" in printed
    assert "\n" not in printed


def test_an_explanation_is_a_value_that_programs_and_notebooks_can_read(engine: Engine) -> None:
    for name, text in QUERIES.items():
        engine.create_query(name, text)
    explanation = engine.explain()
    assert explanation == engine.explain()
    (stream,) = json.loads(json.dumps(explanation.to_dict()))["streams"]
    (tree,) = stream["trees"]
    assert (stream["stream"], stream["rate_seen"], tree["slicing"]) == ("trades", False, "paired")
    assert tree["edges_per_second"] == pytest.approx(17 / 600)
    assert [w["text"] for w in tree["windows"]] == [str(w) for w in explanation.streams[0].trees[0].windows]
    by_keys = {tuple(g["keys"]): g for g in tree["groupings"]}
    assert [[q["name"] for q in c["queries"]] for c in by_keys[()]["conditions"]] == [["a", "c"], ["b"]]
    assert by_keys[("`symbol`",)]["conditions"][0]["queries"][0]["window"]["offset_us"] == 7_000_000
    assert stream["operations_per_second"]["saving"] == pytest.approx(2.0, abs=0.01)
    assert [q.name for q in explanation.queries] == ["a", "c", "b", "d"]
    for html in (explanation._repr_html_(), engine._repr_html_()):
        assert "<td" in html
        assert "trades" in html
    assert "0</td><td>none yet</td>" in engine._repr_html_()


def test_long_plans_are_cut_short(engine: Engine) -> None:
    defined(engine, *(f"SELECT count(*) AS n FROM trades [RANGE {i} s SLIDE {i} s]" for i in range(1, 12)))
    shared, alone = explained(engine).splitlines(), explained(engine, "unshared paired").splitlines()
    assert shared[4].endswith("q8 [RANGE 8 s SLIDE 8 s], … 3 more")
    assert "  … and 3 more trees" in alone
    assert sum(line.startswith("  tree") for line in alone) == 8


def test_equal_conditions_share_a_bit_and_equal_aggregates_a_partial(engine: Engine) -> None:
    definitions = defined(
        engine,
        "SELECT avg(price) AS x FROM trades [RANGE 10 s SLIDE 5 s] WHERE volume > 5",
        "SELECT sum(price) AS y, count(price) AS z FROM trades [RANGE 20 s SLIDE 5 s] WHERE (volume) > 5",
        "SELECT max(price) AS x FROM trades [RANGE 10 s SLIDE 5 s]",
    )
    (tree,) = plan_queries(definitions, "shared paired", 1).trees
    (grouping,) = tree.groupings
    assert [str(c) for c in grouping.conditions] == ["`volume` > 5", "every row"]
    partials = ["count(*)", "count(`price`)", "float(`price`)", "some(`price`)", "max(`price`)"]
    assert [str(c) for c in grouping.components] == partials
    assert grouping.users == ((0, 1), (0,), (0,), (0,), (1,))
    assert tree.lane_key(definitions[0]) == tree.lane_key(definitions[1]) != tree.lane_key(definitions[2])


def test_a_lane_keeps_its_name_when_other_queries_come_and_go(engine: Engine) -> None:
    definitions = defined(engine, QUERIES["b"], QUERIES["d"], QUERIES["a"])
    (before,) = plan_queries(definitions[:1], "shared paired", 1).trees
    (after,) = plan_queries(definitions, "shared paired", 2).trees
    assert before.lane_key(definitions[0]) == after.lane_key(definitions[0])


GROWING = (
    *QUERIES.values(),
    "SELECT symbol, count(*) AS n FROM trades [RANGE 12 MIN SLIDE 5 MIN] GROUP BY symbol WITH (retain = '1 h')",
    "SELECT min(price) AS lo FROM trades [RANGE 9 s SLIDE 2 s] WHERE volume > 50000",
    "SELECT count(*) AS n FROM trades [RANGE 9 s SLIDE 2 s] LEFT JOIN listing ON lower(trades.symbol) = listing.symbol",
    "SELECT upper(symbol) AS u, volume, sum(volume) AS v FROM trades [RANGE 1 s SLIDE 1 s] GROUP BY upper(symbol), 2",
)


@pytest.mark.parametrize("strategy", STRATEGY_NAMES)
def test_a_plan_that_grows_is_the_plan_made_anew(engine: Engine, strategy: str) -> None:
    definitions, named = defined(engine, *GROWING, *GROWING[::-1]), strategy_named(strategy)
    draw, kept, before = random.Random(7), [definitions[0]], plan_queries(definitions[:1], named, 0)
    for version in range(1, 40):
        known = {d.id for d in kept}
        rest = [d for d in definitions if d.id not in known]
        if rest and draw.random() < 0.7:  # mostly after all others, as new queries come; now and then between them
            kept = sorted([*kept, *draw.sample(rest, draw.randint(1, min(3, len(rest))))], key=lambda d: d.id)
        elif len(kept) > 1:
            kept.remove(draw.choice(kept))
        before, anew = plan_queries(kept, named, version, before), plan_queries(kept, named, version)
        assert before == anew
        assert [tree.lanes for tree in before.trees] == [tree.lanes for tree in anew.trees]
        assert [tree.lane_of for tree in before.trees] == [tree.lane_of for tree in anew.trees]


def test_signatures_take_a_long_for_every_62_conditions(engine: Engine) -> None:
    texts = [f"SELECT count(*) AS n FROM trades [RANGE 1 s SLIDE 1 s] WHERE volume > {i}" for i in range(63)]
    definitions = defined(engine, *texts)
    for number, words in ((BITS_PER_WORD, 1), (BITS_PER_WORD + 1, 2)):
        layout = lay_out(plan_queries(definitions[:number], "shared paired", 1), "ts")
        assert layout.words == layout.members[0].grouping.words == words


def test_keys_of_one_type_share_a_column(engine: Engine) -> None:
    definitions = defined(
        engine,
        "SELECT symbol, volume, count(*) AS n FROM trades [RANGE 1 s SLIDE 1 s] GROUP BY symbol, volume",
        "SELECT upper(symbol) AS k, count(*) AS n FROM trades [RANGE 1 s SLIDE 1 s] GROUP BY upper(symbol)",
        "SELECT volume, lower(symbol) AS k, symbol, count(*) AS n FROM trades [RANGE 1 s SLIDE 1 s] "
        "GROUP BY volume, lower(symbol), symbol",
        "SELECT count(*) AS n FROM trades [RANGE 1 s SLIDE 1 s]",
    )
    layout = lay_out(plan_queries(definitions, "shared paired", 1), "ts")
    assert [m.grouping.keys for m in layout.members] == [
        (),
        ("upper(`symbol`)",),
        ("`symbol`", "`volume`"),
        ("`volume`", "lower(`symbol`)", "`symbol`"),
    ]
    assert layout.key_types == (pa.string(), pa.int32(), pa.string())
    assert [m.slots for m in layout.members] == [(), (0,), (0, 1), (1, 0, 2)]
    assert [m.carrier for m in layout.members] == [True, False, False, False]
    assert not any(m.signed for m in layout.members)


def test_a_join_is_done_once_and_queries_without_it_see_every_row_once(engine: Engine) -> None:
    joined = "FROM trades [RANGE 1 s SLIDE 1 s] JOIN listing USING (symbol)"
    definitions = defined(
        engine,
        f"SELECT count(*) AS n {joined}",
        f"SELECT sum(volume) AS v {joined} WHERE r2000",
        "SELECT count(*) AS n FROM trades [RANGE 1 s SLIDE 1 s]",
    )
    plan = plan_queries(definitions, "shared paired", 1)
    assert [j.table for j in plan.joins] == ["listing"]
    assert condition_of(definitions[0]).joins == plan.joins
    assert condition_of(definitions[2]).joins == ()
    assert lay_out(plan, "ts").members[0].signed
    assert plan.columns == {"symbol", "volume"}


def test_a_window_of_rows_tells_its_length_in_rows() -> None:
    told = window_dict(RowsWindow(5, 2, partition=("`k`",)))
    assert told == {"text": "[PARTITION BY `k` ROWS 5 SLIDE 2]", "rows": 5, "slide_rows": 2}
    assert window_dict(Window(5, 2, 1)) == {
        "text": "[RANGE 5 us SLIDE 2 us OFFSET 1 us]",
        "range_us": 5,
        "slide_us": 2,
        "offset_us": 1,
    }


def test_what_queries_that_shed_store_is_told_in_words() -> None:
    text = "SELECT count(*) AS n, avg(v) AS m FROM s [RANGE 5 s SLIDE 5 s] WITH (shed = 'sample')"
    told = str(explain_plan("s", [definition(text)], "weave", 1))
    assert "weighted count(*), weighted count(`v`), weighted sum(`v`), bound of count(*), sureness of count(*)" in told
    assert "bound of avg(`v`), bound of sum(`v`), sureness of avg(`v`), sureness of sum(`v`)" in told
