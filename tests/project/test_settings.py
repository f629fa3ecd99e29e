"""penstock.yml: what it says is read, and every mistake is found with its line, also in hostile files."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from penstock.model.duration import MINUTE, SECOND
from penstock.model.schema import Column, Stream
from penstock.project.folder import read_project
from penstock.project.problems import Problem
from penstock.sinks.registry import DeclaredSink
from tests.project.making import TRADES, write_project


def problems(folder: Path, settings: str) -> list[Problem]:
    return list(read_project(write_project(folder, settings)).problems)


def only(folder: Path, settings: str) -> Problem:
    (found,) = problems(folder, settings)
    return found


# What it says.


def test_streams_and_tables_are_read_as_the_catalog_has_them(tmp_path: Path) -> None:
    settings = read_project(write_project(tmp_path)).settings
    (stream,) = [declared.item for declared in settings.streams]
    assert isinstance(stream, Stream)
    assert stream.columns == tuple(
        Column(*c) for c in (("ts", "timestamp"), ("symbol", "string"), ("price", "double"), ("volume", "int"))
    )
    assert (stream.time, stream.lateness_us, stream.max_ahead_us) == ("ts", 5 * SECOND, 10 * MINUTE)
    assert stream.options == {"header": "true", "path": str(tmp_path / "data" / "trades")}
    (table,) = [declared.item for declared in settings.tables]
    assert [c.name for c in table.columns] == ["symbol", "small"]


@pytest.mark.parametrize("keys", ["Symbol, volume", "[symbol, VOLUME]", "\n      - symbol\n      - volume"])
def test_a_stream_may_be_idle_know_duplicates_and_retain_rows(tmp_path: Path, keys: str) -> None:
    own = f"lateness: 5 s\n    idle: 10 s\n    retain_rows: 1 h\n    dedup: {keys}"
    project = read_project(write_project(tmp_path, TRADES.replace("lateness: 5 s", own)))
    assert project.problems == ()
    stream = project.settings.streams[0].item
    assert isinstance(stream, Stream)
    assert (stream.idle_us, stream.retain_rows_us, stream.dedup) == (10 * SECOND, 60 * MINUTE, ("symbol", "volume"))


def test_a_default_that_was_renamed_still_holds_and_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("WARNING", "penstock"):
        project = read_project(write_project(tmp_path, f"{TRADES}\ndefaults:\n  spread_over: 70\n"))
    assert project.problems == ()
    assert project.settings.max_driver_groups == 70
    assert "spread_over is called max_driver_groups now" in caplog.text


def test_the_list_of_defaults_has_no_former_names(tmp_path: Path) -> None:
    (problem,) = read_project(write_project(tmp_path, f"{TRADES}\ndefaults:\n  spread_ovr: 70\n")).problems
    assert "max_driver_groups" in str(problem)
    assert "spread_over" not in str(problem)


def test_a_relative_project_has_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_project(tmp_path / "p")
    monkeypatch.chdir(tmp_path)
    (declared,) = read_project(Path("p")).settings.streams
    assert declared.item.options["path"] == str(tmp_path / "p" / "data" / "trades")


def test_a_column_may_be_computed_from_the_others(tmp_path: Path) -> None:
    text = TRADES.replace("{ts: TIMESTAMP,", '{ms: BIGINT, ts: {type: TIMESTAMP, as: "timestamp_millis(ms)"},')
    project = read_project(write_project(tmp_path, text))
    assert project.problems == ()
    assert project.settings.streams[0].item.columns[1] == Column("ts", "timestamp", "timestamp_millis(`ms`)")


def test_sinks_state_spark_and_defaults_are_read(tmp_path: Path) -> None:
    more = """
name: desk
sinks: [{parquet: {folder: out, roll_bytes: 1_000}}, {jsonl: lines}]
state: state
spark: {cores: 2, memory: 3g, master: "local[1]", spark.sql.shuffle.partitions: 4, spark.sql.ansi.enabled: true}
defaults: {strategy: unshared paned}
"""
    settings = read_project(write_project(tmp_path, TRADES + more)).settings
    assert settings.sinks == (
        DeclaredSink("parquet", {"folder": tmp_path / "out", "roll_bytes": 1000}),
        DeclaredSink("jsonl", {"folder": tmp_path / "lines"}),
    )
    assert (settings.name, settings.state, settings.strategy) == ("desk", tmp_path / "state", "unshared paned")
    assert (settings.spark.cores, settings.spark.memory) == (2, "3g")
    own = {"spark.sql.shuffle.partitions": "4", "spark.sql.ansi.enabled": "true"}
    assert settings.spark.settings == {**own, "spark.master": "local[1]"}


@pytest.mark.parametrize(
    ("name", "meant"), [("shards", "shared paired"), ("unshared", "unshared paired"), ("fragments", "fragments")]
)
def test_a_strategy_may_have_the_paper_s_name(tmp_path: Path, name: str, meant: str) -> None:
    project = read_project(write_project(tmp_path, TRADES + f"\ndefaults: {{strategy: {name}}}\n"))
    assert (project.problems, project.settings.strategy) == ((), meant)


def test_a_project_without_a_name_is_called_as_its_folder(tmp_path: Path) -> None:
    assert read_project(write_project(tmp_path / "desk")).name == "desk"


def test_data_that_is_missing_is_a_note_where_columns_are_declared(tmp_path: Path) -> None:
    project = read_project(write_project(tmp_path))
    assert project.problems == ()
    assert any("trades does not exist yet" in note for note in project.notes)


# Mistakes.


@pytest.mark.parametrize(
    ("before", "after", "says", "shown"),
    [
        ("format: csv\n    path: data/trades", "formt: csv", 'no setting "formt"', "    formt: csv\n      ^^^^^"),
        ("format: csv\n    path: data/tr", "format: cvs\n    path: data/tr", 'cannot be "cvs"', 'Did you mean "csv"?'),
        ("    path: data/trades\n", "", 'stream "trades" has no path', "relative to penstock.yml"),
        ("price: DOUBLE", "price: DUBLE", 'no type "DUBLE"', "^^^^^"),
        ("price: DOUBLE", "PRICE: DOUBLE, price: DOUBLE", "is declared twice", "^^^^^"),
        ("price: DOUBLE", "symbol: DOUBLE", '"symbol" is given twice', "^^^^^^"),
        ("price: DOUBLE", "price: 'INT, x INT'", "expected one column", "such as price DOUBLE"),
        ("price: DOUBLE", "price: 'INT) USING csv OPTIONS (a = 1'", "not a column", "^^^"),
        ("price: DOUBLE", "price: {type: INT}", "needs both type and as", "timestamp_millis"),
        ("price: DOUBLE", "price: {type: INT, as: 'reflect(symbol)'}", "not a column", "reflect"),
        ("price: DOUBLE", "price: {type: INT, as: 'volum + 1'}", 'no column "volum"', 'Did you mean "volume"?'),
        ("time: ts", "time: tts", 'no column "tts"', 'Did you mean "ts"?'),
        ("time: ts", "time: symbol", "is string, not a timestamp", "to_timestamp(symbol)"),
        ("    time: ts\n", "", 'stream "trades" has no time', "column of event time"),
        ("5 s", "5 parsecs", 'no unit "parsecs"', "for example 5 s"),
        ("5 s", "[5]", "must be text, not a list", "^^^"),
        ("lateness: 5 s", "idle: 0 s", "idle must be longer than zero", "Leave the option out"),
        ("lateness: 5 s", "idle: soon", '"soon" is not a duration', "^^^^"),
        ("lateness: 5 s", "retain_rows: [1 h]", "must be text, not a list", "^^^"),
        ("lateness: 5 s", "dedup: [symbol, pryce]", 'no column "pryce" for dedup', 'Did you mean "price"?'),
        ("lateness: 5 s", "dedup: 'symbol,'", "dedup takes columns", "[id, venue]"),
        ("lateness: 5 s", "dedup: {symbol: 1}", "must be text, not a mapping", "^^^"),
        ("lateness: 5 s", "dedup: [symbol, [price]]", "must be text, not a list", "^^^"),
        ("lateness: 5 s", "dedup: symbol, SYMBOL", '"symbol" is in dedup twice', "^^^"),
        ("price: DOUBLE", "price: \"INT) OPTIONS (idle = '1 s'\"", "expected one column", "such as price DOUBLE"),
        ("streams:\n  trades:", "streams:\n  tra-des:", '"tra-des" is not a name', "letters, digits"),
        ("tables:\n  listing:", "tables:\n  Trades:", 'stream "Trades" exists already', "another name"),
        ("tables:\n", "tabels:\n", 'no setting "tabels"', 'Did you mean "tables"?'),
        ("\nstreams:", "\nsinks: [{kafka: x}]\nstreams:", 'no kind of sink "kafka"', "parquet, jsonl"),
        ("\nstreams:", "\nsinks: [{jsonl: {}}]\nstreams:", "has no folder", "folder: answers"),
        ("\nstreams:", "\nsinks: {jsonl: x}\nstreams:", "must be a list", "dash"),
        ("\nstreams:", "\nsinks: [{jsonl: x}, {jsonl: x}]\nstreams:", "the same folder", "^^^^^"),
        ("\nstreams:", "\nspark: {shuffle: 3}\nstreams:", 'no setting "shuffle"', "spark.sql"),
        ("\nstreams:", "\nspark: {cores: 0}\nstreams:", "at least 1", "^"),
        ("\nstreams:", "\nspark: {spark.sql.caseSensitive: true}\nstreams:", "depends on spark.sql.case", "Leave it"),
        ("\nstreams:", "\nspark: {spark.sql.session.timeZone: CET}\nstreams:", "it is UTC", "Leave it"),
        ("\nstreams:", "\ndefaults: {priority: 2}\nstreams:", 'no setting "priority"', "strategy"),
        (
            "\nstreams:",
            "\ndefaults: {strategy: shard}\nstreams:",
            'strategy cannot be "shard"',
            'Did you mean "shards"?',
        ),
        ("\nstreams:", "\nstate:\nstreams:", "state must be text, not nothing", "state"),
    ],
)
def test_a_mistake_is_found_underlined_and_explained(
    tmp_path: Path, before: str, after: str, says: str, shown: str
) -> None:
    assert before in TRADES
    found = problems(tmp_path, TRADES.replace(before, after, 1))
    (text,) = [str(problem) for problem in found if says in problem.error.what or says in str(problem)]
    assert says in text
    assert shown in text
    assert "  in penstock.yml:" in text


def test_all_mistakes_are_reported_at_once_in_order_of_lines(tmp_path: Path) -> None:
    text = TRADES.replace("csv", "cvs").replace("5 s", "5 parsecs").replace("\ntables", "\nnme: x\ntables")
    found = problems(tmp_path, text)
    assert [p.position[0] for p in found if p.position] == [4, 9, 10, 13]
    assert [p.to_dict()["line"] for p in found] == [4, 9, 10, 13]
    assert {p.to_dict()["file"] for p in found} == {"penstock.yml"}


def test_the_place_counts_characters_and_not_bytes(tmp_path: Path) -> None:
    found = only(tmp_path, "# größe ≤ 3 ☃\n" + TRADES.replace("time: ts", "time: größe"))
    assert found.where == "penstock.yml:9:11"
    assert found.error.place is not None
    assert found.error.text is not None
    assert found.error.text[slice(*found.error.place)] == "größe"


# Hostile files.


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: &x [1]\nb: *x", "anchors are not available"),
        ("b: *x", "aliases are not available"),
        ("a: !!python/object/apply:os.system [ls]", "tag"),
        ("a: !mine 3", "tag"),
        ("a:\n\tb: 1", "spaces, not with tabs"),
        ("a: 'x", "malformed YAML"),
        ("{a: 1", "malformed YAML"),
        ("a: 1\n---\nb: 2", "another document"),
        ("[" * 5_000, "nested more than 20 levels"),
        ("{a: " * 5_000, "nested more than 20 levels"),
        ("- a\n- b", "must be a mapping, not a list"),
        ("just text", "must be a mapping"),
        ("? [a]\n: 1", "must be text"),
        ("a\0b: 1", "U+0000"),
        ("\x1b[31mred: 1", "U+001B"),
        ("# nothing", "is empty"),
        ("", "is empty"),
        ("x" * 2_000_000, "longer than 1,000,000 bytes"),
        ("a: 1\n" * 10_000, "is given twice"),
        ("<<: {streams: 3}", 'no setting "<<"'),
    ],
)
def test_hostile_yaml_is_refused_quickly_with_a_reason(tmp_path: Path, text: str, says: str) -> None:
    began = time.thread_time()
    found = problems(tmp_path, text)
    assert time.thread_time() - began < 5
    assert any(says in str(problem) for problem in found)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    write_project(tmp_path)
    for content, says in ((b"\xff\xfea\0", "UTF-16"), (b"name: \xe9\n", "another encoding")):
        (tmp_path / "penstock.yml").write_bytes(content)
        (found,) = read_project(tmp_path).problems
        assert "not UTF-8 text" in str(found)
        assert says in str(found)


def test_a_byte_order_mark_and_windows_line_ends_are_no_mistake(tmp_path: Path) -> None:
    write_project(tmp_path)
    (tmp_path / "penstock.yml").write_bytes(b"\xef\xbb\xbf" + TRADES.replace("\n", "\r\n").encode())
    assert read_project(tmp_path).problems == ()
