"""The catalog: every change is a version, durable before it holds; who was there at any version can be told later."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.catalog import Catalog, Control
from penstock.errors import CatalogError, StateError, UnknownColumn, UnknownQuery, UnknownStream
from penstock.evaluate.typed import Definition
from penstock.model.function import Function, Parameter
from penstock.model.schema import Column, Stream
from penstock.store.changes import ChangeLog
from tests.cases import cases
from tests.catalog.making import COLUMNS, COUNT, QUOTES, TRADES, Typing, W, catalog_at, market


def enter(catalog: Catalog, name: str, text: str = COUNT) -> Definition:
    return catalog.create_queries([Typing(catalog).text(text, name)])[0]


def alter(catalog: Catalog, name: str, text: str) -> Definition:
    return catalog.replace_query(Typing(catalog).text(text, name))


def names(catalog: Catalog, stream: str, version: int | None = None) -> list[str]:
    return [definition.name for definition in catalog.snapshot(stream, version)[1]]


MAX = f"SELECT max(price) AS high FROM trades {W}"
GROUPED = (
    "SELECT sector, avg(price) AS mean, count(*) > 2 AS busy FROM trades [RANGE 90 s SLIDE 1 min OFFSET 5 s] "
    "JOIN listing USING (symbol) WHERE price > 1 GROUP BY sector HAVING mean > 2 "
    "WITH (keep = '1 d', from = 'beginning')"
)
SPARK_WINDOW = "SELECT window.end AS until, count(price, symbol) AS n FROM trades GROUP BY window(ts, '3 min', '2 min')"


# -- names -------------------------------------------------------------------------------------------------------


def test_a_quote_in_the_name_of_a_query_is_told_in_words() -> None:
    catalog, _ = market()
    for name, sign in (('a"b', "a double quote"), ("a`b", "a backquote"), ("a/b", '"/"')):
        with pytest.raises(CatalogError) as raised:
            enter(catalog, name)
        assert raised.value.what == f'the name of query "{name}" holds {sign}'


# -- versions ----------------------------------------------------------------------------------------------------


def test_every_change_is_one_version_and_the_same_again_is_none() -> None:
    catalog, _ = market()
    assert catalog.version == 3
    first = enter(catalog, "a")
    assert (catalog.version, first.id, first.created) == (4, 1, 4)
    assert enter(catalog, "a") == first
    assert catalog.create_stream(TRADES) is False
    assert catalog.version == 4


def test_queries_are_entered_together_or_not_at_all(tmp_path: Path) -> None:
    catalog, typing = market(tmp_path / "catalog.db")
    with pytest.raises(CatalogError, match=r'query "B" exists already\nhint: Replace it .*--replace'):
        catalog.create_queries([typing.text(COUNT, "a"), typing.text(COUNT, "b"), typing.text(MAX, "B")])
    assert (catalog.query_names(), catalog.version) == ([], 3)
    made = catalog.create_queries([typing.text(COUNT, "a"), typing.text(COUNT, "b"), typing.text(COUNT, "a")])
    assert [(d.id, d.created) for d in made] == [(1, 4), (2, 5), (1, 4)]
    assert [c["version"] for c in ChangeLog(tmp_path / "catalog.db")] == [1, 2, 3, 4, 5]


def test_a_snapshot_tells_who_was_there_at_any_version(tmp_path: Path) -> None:
    catalog, _ = market(tmp_path / "catalog.db")
    enter(catalog, "a")  # 4
    enter(catalog, "b", MAX)  # 5
    enter(catalog, "other", COUNT.replace("trades", "quotes"))  # 6
    catalog.drop("query", "a")  # 7
    altered = alter(catalog, "b", COUNT)  # 8
    enter(catalog, "a", MAX)  # 9
    told = [names(catalog, "trades", version) for version in range(3, 10)]
    assert told == [[], ["a"], ["a", "b"], ["a", "b"], ["b"], ["b"], ["b", "a"]]
    assert [d.query.text for d in catalog.snapshot("trades", 7)[1]] == [MAX]
    assert catalog.snapshot("trades", 8)[1] == (altered,)
    assert names(catalog, "quotes", 5) == []
    assert catalog.snapshot("trades") == catalog.snapshot("trades", 9)
    again, typing = catalog_at(tmp_path / "catalog.db")
    for version in range(10):
        assert again.snapshot("trades", version) == catalog.snapshot("trades", version)
    assert typing.asked == 0


def test_a_name_used_again_is_another_definition() -> None:
    catalog, _ = market()
    numbers = []
    for _ in range(3):
        numbers.append(enter(catalog, "q").id)
        catalog.drop("query", "q")
    assert numbers == [1, 2, 3]
    assert [catalog.name_of(number) for number in numbers] == ["q", "q", "q"]


def test_a_change_in_another_stream_is_none_of_this_one() -> None:
    catalog, _ = market()
    assert (catalog.stream_version("trades"), catalog.stream_version("quotes"), catalog.stream_version("x")) == (
        1,
        2,
        0,
    )
    enter(catalog, "q", COUNT.replace("trades", "quotes"))
    catalog.create_function(Function("f", (Parameter("x", "int"),), None, "`x`"))
    assert (catalog.stream_version("trades"), catalog.stream_version("quotes")) == (1, 4)
    enter(catalog, "t")
    catalog.pause("t")
    assert (catalog.stream_version("trades"), catalog.stream_version("quotes")) == (7, 4)
    alter(catalog, "q", MAX)  # leaves quotes for trades
    assert (catalog.stream_version("trades"), catalog.stream_version("quotes")) == (8, 8)


# -- pausing -----------------------------------------------------------------------------------------------------


def test_pauses_are_versions_and_told_in_order(tmp_path: Path) -> None:
    catalog, _ = market(tmp_path / "catalog.db")
    one, two = enter(catalog, "one"), enter(catalog, "two")  # 4, 5
    enter(catalog, "other", COUNT.replace("trades", "quotes"))  # 6
    assert [catalog.pause("one"), catalog.pause("ONE"), catalog.resume("two")] == [True, False, True]  # 7, 8
    catalog.pause("other")  # 9
    catalog.resume("one")  # 10
    expected = [Control(one.id, "pause", 7), Control(two.id, "resume", 8), Control(one.id, "resume", 10)]
    for known in (catalog, catalog_at(tmp_path / "catalog.db")[0]):
        assert known.controls("trades", 0, 100) == expected
        assert known.controls("trades", 7, 9) == expected[1:2]
        assert known.controls("trades", 10, 10) == known.controls("nowhere", 0, 100) == []
        assert [known.user_paused(name) for name in ("one", "two", "other")] == [False, False, True]
    with pytest.raises(UnknownQuery, match="there is no query"):
        catalog.pause("three")


def test_a_query_altered_while_it_is_paused_stays_paused(tmp_path: Path) -> None:
    catalog, _ = market(tmp_path / "catalog.db")
    enter(catalog, "q")
    catalog.pause("q")
    new = alter(catalog, "q", MAX)
    for known in (catalog, catalog_at(tmp_path / "catalog.db")[0]):
        assert known.user_paused("q")
        assert known.controls("trades", new.created - 1, new.created) == [Control(new.id, "pause", new.created)]
    catalog.drop("query", "q")
    enter(catalog, "q")
    assert not catalog.user_paused("q")


def test_what_changes_how_urgent_a_query_is_changes_no_definition(tmp_path: Path) -> None:
    catalog, typing = market(tmp_path / "catalog.db")
    first, other = enter(catalog, "q"), enter(catalog, "other")
    urgent = f"{COUNT} WITH (deadline = '2 s', priority = 5)"
    version = catalog.version
    assert catalog.holds(typing.text(urgent, "q"))
    altered = alter(catalog, "q", urgent)
    assert (altered.id, catalog.version, catalog.stream_version("trades")) == (first.id, version + 1, version + 1)
    for known in (catalog, catalog_at(tmp_path / "catalog.db")[0]):
        assert known.query("q").query.options == (("deadline", "2 s"), ("priority", 5))
        assert known.query("q").query.text == urgent
        assert known.version_of(first.id) == 1
        assert [d.id for d in known.definitions("trades")] == [first.id, other.id]
    assert alter(catalog, "q", urgent) is catalog.query("q")
    assert catalog.version == version + 1
    assert alter(catalog, "q", f"{MAX} WITH (priority = 5)").id != first.id


# -- lifetimes and origins ---------------------------------------------------------------------------------------


def test_a_lifetime_counts_from_the_clock_of_its_creation(tmp_path: Path) -> None:
    catalog, _ = market(tmp_path / "catalog.db")
    short = enter(catalog, "short", f"{COUNT} WITH (lifetime = '1 s')")
    enter(catalog, "long", f"{COUNT} WITH (lifetime = '1 h')")
    enter(catalog, "endless")
    end = short.created_us + 1_000_000
    for known in (catalog, catalog_at(tmp_path / "catalog.db")[0]):
        assert known.outlived(end - 1) == []
        assert known.outlived(end) == [short]
        assert [d.name for d in known.outlived(10**15)] == ["short", "long"]
    catalog.drop("query", "short")
    assert [d.name for d in catalog.outlived(10**15)] == ["long"]


def test_an_added_query_remembers_that_no_file_tells_of_it(tmp_path: Path) -> None:
    catalog, typing = market(tmp_path / "catalog.db")
    catalog.create_queries([typing.text(COUNT, "by_hand")], origin="added")
    enter(catalog, "by_file")
    alter(catalog, "by_hand", MAX)
    again, _ = catalog_at(tmp_path / "catalog.db")
    assert [again.query(name).origin for name in ("by_hand", "by_file")] == ["added", ""]


# -- what is refused ---------------------------------------------------------------------------------------------


def test_a_stream_that_was_dropped_after_its_query_was_bound_is_missed() -> None:
    catalog, typing = market()
    late = typing.text(COUNT, "late")
    catalog.drop("stream", "trades")
    with pytest.raises(UnknownStream, match='there is no stream "trades"'):
        catalog.create_queries([late])


def test_what_a_query_reads_is_not_dropped() -> None:
    catalog, _ = market()
    enter(catalog, "g", GROUPED)
    for kind, name in (("stream", "trades"), ("table", "listing")):
        with pytest.raises(CatalogError, match=f'{kind} "{name}" is read by query "g"'):
            catalog.drop(kind, name)  # type: ignore[arg-type]
    catalog.drop("query", "g")
    catalog.drop("table", "listing")


def test_another_stream_is_not_entered_over_the_commits_of_a_dropped_one(tmp_path: Path) -> None:
    catalog, _ = market(tmp_path / "catalog.db")
    catalog.drop("stream", "trades")
    again, _ = catalog_at(tmp_path / "catalog.db")
    with pytest.raises(CatalogError, match="its commits are still in the state folder"):
        again.create_stream(Stream("trades", COLUMNS, "ts"))
    assert again.create_stream(TRADES)


def test_key_columns_are_checked_when_the_files_told_the_columns() -> None:
    catalog = Catalog(ChangeLog(None))
    with pytest.raises(UnknownColumn, match='has no column "symbl" for dedup') as raised:
        catalog.create_stream(Stream("s", COLUMNS, "ts", dedup=("symbl",)))
    assert raised.value.hint == 'Did you mean "symbol"?'
    catalog.create_stream(Stream("s", COLUMNS, "ts", dedup=("SYMBOL",)))
    assert catalog.known_stream("s").dedup == ("symbol",)


def test_a_change_that_could_not_be_kept_does_not_hold(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    catalog, typing = market(path)
    enter(catalog, "kept")
    other, _ = catalog_at(path)
    enter(other, "first")  # another engine, which the state folder's lock forbids
    with pytest.raises(StateError, match="another program has changed the catalog"):
        catalog.create_queries([typing.text(COUNT, "lost")])
    assert (catalog.query_names(), catalog.version) == (["kept"], 4)


# -- restart -----------------------------------------------------------------------------------------------------


def test_everything_comes_back_as_it_was(tmp_path: Path) -> None:
    catalog, _ = market(tmp_path / "catalog.db")
    catalog.create_function(Function("f", (Parameter("x", "int"),), "int", "`x` + 1"))
    for number, text in enumerate((COUNT, MAX, GROUPED, SPARK_WINDOW)):
        enter(catalog, f"q{number}", text)
    again, typing = catalog_at(tmp_path / "catalog.db")
    assert [again.stream("TRADES"), again.stream("quotes")] == [TRADES, QUOTES]
    assert (again.tables(), again.functions(), again.version) == (
        catalog.tables(),
        catalog.functions(),
        catalog.version,
    )
    for name in catalog.query_names():
        known, back = catalog.query(name), again.query(name)
        assert (back, back.typed.components, back.typed.schema) == (known, known.typed.components, known.typed.schema)
    assert again.next_id == catalog.next_id
    assert typing.asked == 0


def test_queries_come_back_without_being_typed_and_dropped_ones_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog, typing = market(tmp_path / "catalog.db")
    catalog.create_queries(typing.text(f"{GROUPED.replace('> 1', f'> {n}')}", f"q{n}") for n in range(100))
    for n in range(0, 100, 2):
        catalog.drop("query", f"q{n}")
    before, looked_up, read_change = catalog.definitions("trades"), list[int](), ChangeLog.read

    def noted(log: ChangeLog, version: int) -> dict[str, Any]:
        looked_up.append(version)
        return read_change(log, version)

    monkeypatch.setattr(ChangeLog, "read", noted)
    again, asked = catalog_at(tmp_path / "catalog.db")
    assert (again.definitions("trades"), looked_up) == (before, [])
    assert (asked.asked, len(again.snapshot("trades", 103)[1])) == (0, 100)
    assert len(looked_up) == 50  # of the dropped ones nothing was kept


# -- at any time, from any thread --------------------------------------------------------------------------------


def test_threads_may_change_and_ask_at_once(tmp_path: Path) -> None:
    catalog, _ = market(tmp_path / "catalog.db")
    failures: list[BaseException] = []
    stop = threading.Event()

    def change(number: int) -> None:
        try:
            for turn in range(5):
                enter(catalog, f"q{number}_{turn}")
                catalog.pause(f"q{number}_{turn}")
                if turn % 2:
                    catalog.drop("query", f"q{number}_{turn}")
        except BaseException as error:
            failures.append(error)

    def ask() -> None:
        try:
            while not stop.is_set():
                version, definitions = catalog.snapshot("trades")
                assert catalog.snapshot("trades", version)[1] == definitions
                catalog.controls("trades", 0, version)
                catalog.query_names()
        except BaseException as error:
            failures.append(error)

    changing = [threading.Thread(target=change, args=(number,)) for number in range(4)]
    asking = threading.Thread(target=ask)
    for thread in (*changing, asking):
        thread.start()
    for thread in changing:
        thread.join()
    stop.set()
    asking.join()
    assert failures == []
    assert catalog.version == 3 + 4 * (5 + 5 + 2)
    again, _ = catalog_at(tmp_path / "catalog.db")
    assert [d.name for d in again.definitions("trades")] == [d.name for d in catalog.definitions("trades")]


def plain(definition: Definition) -> str:
    return definition.query.text.partition(" WITH ")[0]


ACTIONS = st.lists(
    st.tuples(st.sampled_from(["create", "alter", "urge", "drop", "pause", "resume"]), st.sampled_from("abc")),
    max_size=14,
)


@settings(max_examples=max(cases(20), settings().max_examples // 5))
@given(ACTIONS)
def test_any_history_is_told_the_same_live_and_after_a_restart(
    tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[str, str]]
) -> None:
    path = tmp_path_factory.mktemp("catalog") / "catalog.db"
    catalog, _ = market(path)
    texts = itertools.cycle([COUNT, MAX, COUNT.replace("trades", "quotes")])
    model: dict[int, list[str]] = {3: []}
    for action, name in actions:
        there = catalog.has("query", name)
        if action == "create" and not there:
            enter(catalog, name, next(texts))
        elif action == "alter" and there:
            alter(catalog, name, next(texts))
        elif action == "urge" and there:
            before = catalog.query(name)
            assert alter(catalog, name, f"{plain(before)} WITH (priority = {len(model)})").id == before.id
        elif action == "drop" and there:
            catalog.drop("query", name)
        elif action == "pause" and there:
            catalog.pause(name)
        elif action == "resume" and there:
            catalog.resume(name)
        model[catalog.version] = sorted(catalog.query_names())
    again, typing = catalog_at(path)
    for known in (catalog, again):
        for version, expected in model.items():
            found = [d for stream in ("trades", "quotes") for d in known.snapshot(stream, version)[1]]
            assert sorted(d.name for d in found) == expected
    for name in catalog.query_names():
        assert again.query(name).query == catalog.query(name).query
    for stream in ("trades", "quotes"):
        assert again.controls(stream, 0, 99) == catalog.controls(stream, 0, 99)
        assert again.stream_version(stream) == catalog.stream_version(stream)
    assert [again.user_paused(n) for n in again.query_names()] == [
        catalog.user_paused(n) for n in catalog.query_names()
    ]
    assert typing.asked == 0
    catalog.close()
    again.close()


def test_a_stream_of_an_older_record_has_the_defaults() -> None:
    assert (Stream("s", (Column("ts", "timestamp"),), "ts").idle_us, QUOTES.dedup, QUOTES.retain_rows_us) == (0, (), 0)
