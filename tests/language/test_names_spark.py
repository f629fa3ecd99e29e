"""Every keyword of Spark's grammar in every position of a name: read as Spark reads it, and answered as Spark does."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import PenstockError
from penstock.language.grammar.literals import word_set
from penstock.language.grammar.parse import parse_query
from penstock.language.grammar.readings import NO_TABLE_ALIAS
from penstock.testing import TestBed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "a_plain_name"
W = "[RANGE 10 s SLIDE 10 s]"
# A second spelling of a keyword, which Spark does not list; and words of our own.
BESIDES = "regexp rlike temp temporary localtimestamp slide lifetime emit retain pause resume queries streams".split()  # noqa: SIM905
POSITIONS = {
    "SELECT, first": "SELECT {} , 1 FROM t",
    "SELECT, last": "SELECT 1 , {} FROM t",
    "SELECT, alone": "SELECT {} FROM t",
    "SELECT, in arithmetic": "SELECT 1 - {} , 2 * {} / 3 FROM t",
    "argument": "SELECT sum( {} ) , max( {} , 1 ) FROM t",
    "argument, minus": "SELECT max( {} - 1 ) FROM t",
    "CAST": "SELECT CAST( {} AS int ) , {} :: int FROM t",
    "CASE": "SELECT CASE WHEN {} THEN {} ELSE {} END FROM t",
    "CASE of a value": "SELECT CASE {} WHEN 1 THEN 2 END FROM t",
    "WHERE, left": "SELECT 1 FROM t WHERE {} = 1",
    "WHERE, right": "SELECT 1 FROM t WHERE 1 = {}",
    "WHERE, alone": "SELECT 1 FROM t WHERE {}",
    "WHERE, null": "SELECT 1 FROM t WHERE {} IS NULL",
    "WHERE, negated": "SELECT 1 FROM t WHERE NOT {}",
    "WHERE, and": "SELECT 1 FROM t WHERE a = {} AND {} = b",
    "WHERE, in": "SELECT 1 FROM t WHERE {} IN ( 1 )",
    "WHERE, between": "SELECT 1 FROM t WHERE a BETWEEN {} AND {}",
    "GROUP BY": "SELECT {} AS k , count(*) FROM t GROUP BY {}",
    "GROUP BY, among others": "SELECT count(*) FROM t GROUP BY a , {} , b",
    "GROUP BY and HAVING": "SELECT count(*) FROM t GROUP BY {} HAVING {} > 1",
    "ROLLUP": "SELECT count(*) FROM t GROUP BY ROLLUP ( {} , a )",
    "alias with AS": "SELECT a AS {} FROM t HAVING {} > 1",
    "alias with AS, first": "SELECT a AS {} , b FROM t",
    "alias": "SELECT a {} FROM t",
    "alias, first": "SELECT a {} , b FROM t",
    "alias of a call": "SELECT sum(a) {} FROM t",
    "alias of a call, first": "SELECT sum(a) {} , b FROM t",
    "struct field": "SELECT s.{} FROM t",
    "struct field of a field": "SELECT s.{}.x , 1 FROM t WHERE s.{} > 1 GROUP BY s.{}",
    "struct": "SELECT {}.x FROM t WHERE {}.y > 1",
    "qualified": "SELECT {}.{} FROM {}",
    "stream": "SELECT 1 FROM {}",
    "stream before WHERE": "SELECT 1 FROM {} WHERE a",
    "stream's alias with AS": "SELECT 1 FROM t AS {} WHERE a",
    "stream's alias": "SELECT 1 FROM t {}",
    "stream's alias before WHERE": "SELECT 1 FROM t {} WHERE a",
    "stream's alias before JOIN": "SELECT 1 FROM t {} JOIN u ON a",
    "table": "SELECT 1 FROM t JOIN {} ON a",
    "table's alias": "SELECT 1 FROM t JOIN u AS {} ON {}.a",
    "USING": "SELECT 1 FROM t JOIN u USING ( {} )",
    "ON": "SELECT 1 FROM t JOIN u ON t.{} = u.{} LEFT JOIN v ON a = {} WHERE b",
}
# Most keywords are names in many positions at once. Spark is asked in short texts: long ones take it long.
AT_ONCE = (
    "SELECT {} , sum( {} ) AS {} , s.{} FROM t",
    "SELECT s.{}.x , {}.y , a {} , b FROM {}",
    "SELECT CASE WHEN {} THEN {} ELSE {} END , CAST( {} AS int ) FROM t",
    "SELECT 1 FROM t WHERE {} IS NULL",
    "SELECT 1 FROM t WHERE a BETWEEN {} AND 5",
    "SELECT {} AS a FROM t GROUP BY {}",
    "SELECT 1 FROM t AS {} JOIN {} ON t.{} = {}",
    "SELECT a {} FROM t HAVING {} > 1",
)
ALL = (
    "SELECT {} , sum( {} ) AS {} , s.{} , s.{}.x , {}.y , a {} , CASE WHEN {} THEN {} ELSE {} END , CAST( {} AS int ) "
    "FROM {} AS {} JOIN {} AS u ON t.{} = {} WHERE {} = 1 AND a BETWEEN {} AND {} OR {} IS NULL "
    "GROUP BY {} , a HAVING {} > 1"
)
# What Spark takes and Penstock refuses: a clause that lacks its second half is more often a mistake than an alias.
OUR_OWN = {(word, f"stream's alias{more}") for word in "as where group having with".split()  # noqa: SIM905
           for more in ("", " before WHERE", " before JOIN")}  # fmt: skip
# What Penstock takes and Spark does not: AS says that an alias follows, and there are no collations.
MORE = (
    {(word, position) for word in NO_TABLE_ALIAS for position in ("stream's alias with AS", "table's alias")}
    | {("collate", "alias"), ("collate", "alias of a call")}
    # Spark reads WHERE as the alias of the table, and calls a function or joins a table.
    | {(word, "WHERE, in") for word in word_set("having join limit offset qualify where")}
    | {("join", "WHERE, null")}
    | {("from", "stream before WHERE"), ("stream", "stream before WHERE"), ("stream", "table")}
)

Reader = Callable[[str], str | None]


@pytest.fixture(scope="module")
def keywords(spark: SparkSession) -> list[str]:
    return [row.keyword.lower() for row in spark.sql("SELECT keyword FROM sql_keywords()").collect()] + BESIDES


@pytest.fixture(scope="module")
def read_by_spark(spark: SparkSession) -> Reader:
    """Return Spark's parser: from text to its plan, without the numbers of attributes; None if it refuses."""
    parser: Any = spark._jsparkSession.sessionState().sqlParser()

    def read(text: str) -> str | None:
        try:
            return re.sub(r"#\d+L?", "", parser.parsePlan(text).toString())
        except Exception:
            return None

    return read


def read_by_us(text: str) -> str | PenstockError:
    try:
        return str(parse_query(text))
    except PenstockError as error:
        return error


class Judge:
    """Compares both readings of a keyword in one position with those of a plain name there."""

    def __init__(self, read: Reader) -> None:
        self.read = read
        self.plain: dict[str, tuple[str, str]] = {}

    def is_name_to_spark(self, word: str, text: str) -> bool:
        return self.read(text.replace("{}", word)) == self._plain(text)[0].replace(NAME, word)

    def is_name_to_us(self, word: str, text: str) -> bool:
        shown = read_by_us(text.replace("{}", word))
        return isinstance(shown, str) and shown.replace("`", "") == self._plain(text)[1].replace(NAME, word)

    def _plain(self, text: str) -> tuple[str, str]:
        if text not in self.plain:
            named = text.replace("{}", NAME)
            found = self.read(named)
            assert found is not None
            self.plain[text] = found, str(parse_query(named)).replace("`", "")
        return self.plain[text]

    def verdict(self, word: str, position: str) -> str | None:
        """Say what is wrong with a keyword in a position; None if nothing is."""
        text = POSITIONS[position]
        ours, spark = self.is_name_to_us(word, text), self.is_name_to_spark(word, text)
        if ours == spark or (ours and (word, position) in MORE):
            return None if ours else self.other_meaning(text.replace("{}", word))
        if ours:
            return "a name to us alone"
        shown = read_by_us(text.replace("{}", word))
        if (word, position) in OUR_OWN and isinstance(shown, PenstockError):
            return None if "backquotes" in (shown.hint or "") else f"no hint: {shown}"
        return f"a name to Spark alone, to us {shown}"

    def other_meaning(self, text: str) -> str | None:
        """Say what is wrong where the word is no name: both must read the same, or we refuse it and say what to do."""
        shown, meant = read_by_us(text), self.read(text)
        if isinstance(shown, str):
            again = self.read(shown)
            same = "current_path()" in shown or (again or "").lower() == (meant or "").lower()
            return None if same else f"{shown} to us, {meant} to Spark"
        of_sql = type(shown).__name__ == "Unsupported" and meant is not None  # Spark reads something that we refuse
        return None if of_sql or "backquotes" in (shown.hint or "") else f"no hint: {shown}"


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.soak)], ids=["one in three", "all"])
def test_every_keyword_in_every_position_is_read_as_spark_reads_it(
    keywords: list[str], read_by_spark: Reader, step: int
) -> None:
    judge, wrong, apart = Judge(read_by_spark), {}, []
    for word in keywords[::step]:
        if all(judge.is_name_to_spark(word, text) for text in AT_ONCE) and judge.is_name_to_us(word, ALL):
            continue
        apart.append(word)
        for position in POSITIONS:
            if (verdict := judge.verdict(word, position)) is not None:
                wrong[word, position] = verdict
    assert wrong == {}
    assert len(keywords) > 440
    assert len(apart) < 60, "most keywords are names in all positions at once"


@pytest.mark.soak
def test_every_keyword_in_every_position_by_itself(keywords: list[str], read_by_spark: Reader) -> None:
    judge = Judge(read_by_spark)
    verdicts = {(word, position): judge.verdict(word, position) for word in keywords for position in POSITIONS}
    assert {case: verdict for case, verdict in verdicts.items() if verdict is not None} == {}


# Answers.

NAMES = "user order group end start offset left right full from limit sort watermark current_date case not null".split()  # noqa: SIM905
COLUMNS = "ts TIMESTAMP, user STRING, " + ", ".join(
    f"{name} BIGINT" for name in NAMES if name not in ("user",)
) + ", s STRUCT<end: BIGINT, user: STRING>"  # fmt: skip
ROWS = [
    (second, f"u{second % 2}", *(second * 10 + n for n in range(1, len(NAMES))), {"end": second, "user": f"s{second}"})
    for second in range(10)
]
# After FROM stands the stream; the same text with and without its window is asked of both.
ASKED = {
    "order": "SELECT user, sum(end - start) AS offset, max(order) order, count(*) AS end FROM @ "
    "WHERE left < right AND current_date IS NOT NULL AND case > 1 GROUP BY user",
    "group": "SELECT group, limit, sum(CASE WHEN end > 50 THEN end ELSE from END) sum FROM @ GROUP BY group, limit",
    "select": "SELECT s.user user, max(s.end) - min(end) AS left, count(`null`) AS null FROM @ "
    "WHERE user IN ('u1') AND s.end BETWEEN 2 AND not GROUP BY s.user HAVING left < 0",
    "from": "SELECT sum(sort) sort, max(watermark) watermark, min(full + offset) full FROM @ HAVING sort > 1",
}


def test_answers_over_such_names_are_spark_s_own_also_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    with TestBed(spark, state=tmp_path / "state") as bed:
        bed.stream("join", COLUMNS)
        for name, text in ASKED.items():
            bed.query(name, text.replace("@", f"join {W}"))
        bed.feed("join", ROWS[:5])
    with TestBed(spark, state=tmp_path / "state") as bed:
        bed.feed("join", ROWS[5:])
        bed.flush()
        schema = COLUMNS.replace("TIMESTAMP", "BIGINT")
        spark.createDataFrame(ROWS, schema).createOrReplaceTempView("join")
        for name, text in ASKED.items():
            answered = spark.sql(text.replace("@", "join"))
            expected = sorted((10, *row) for row in answered.collect())
            assert sorted(bed.timeline(name)) == expected, name
            assert bed.results(name).column_names[2:] == answered.columns, name
        spark.catalog.dropTempView("join")
        assert bed.engine.execute("SHOW CREATE QUERY order")


def test_tables_and_streams_made_of_queries_may_be_called_so_too(spark: SparkSession) -> None:
    with TestBed(spark) as bed:
        bed.stream("from", "end TIMESTAMP, user STRING, group BIGINT", time="end")
        bed.table("left", [("a", 1), ("b", 2)], schema="user STRING, right BIGINT")
        bed.engine.execute(f"CREATE STREAM select AS SELECT user, sum(group) AS order FROM from {W} GROUP BY user")
        bed.query(
            "where", f"SELECT left.right AS full, sum(group) AS on FROM from {W} JOIN left USING (user) GROUP BY right"
        )
        bed.query("having", "SELECT max(order) AS limit FROM select [RANGE 20 s SLIDE 20 s] WHERE user <> 'b'")
        bed.feed("from", [(1, "a", 3), (2, "b", 4), (3, "a", 5), (30, "a", 1)])
        bed.flush()
        assert bed.timeline("where")[:2] == [(10, 1, 8), (10, 2, 4)]
        assert bed.timeline("having")[0] == (20, 8)
