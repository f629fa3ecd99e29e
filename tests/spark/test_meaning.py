"""Settings of a session that is given: none changes what a query means, and the engine changes none of them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.engine import Engine
from penstock.errors import EnvironmentProblem
from penstock.spark.session.own_session import own_session
from penstock.spark.session.pinned_settings import FREE, PINNED, PREFIX, READ_THROUGH, REFUSED, VALUES, is_free, rule_of
from penstock.spark.session.temporary_settings import cloned

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Other values for settings that are no switches.
OTHERS = {
    "session.timeZone": "America/Los_Angeles",
    "timestampType": "TIMESTAMP_NTZ",
    "mapKeyDedupPolicy": "LAST_WIN",
    "storeAssignmentPolicy": "LEGACY",
    "legacy.timeParserPolicy": "LEGACY",
    "legacy.ctePrecedencePolicy": "LEGACY",
    "legacy.nullInEmptyListBehavior": "true",
    "legacy.csv.enableDateTimeParsingFallback": "true",
    "legacy.json.enableDateTimeParsingFallback": "true",
    "parquet.datetimeRebaseModeInRead": "LEGACY",
    "parquet.datetimeRebaseModeInWrite": "LEGACY",
    "parquet.int96RebaseModeInRead": "LEGACY",
    "parquet.int96RebaseModeInWrite": "LEGACY",
    "parquet.outputTimestampType": "TIMESTAMP_MILLIS",
    "sources.partitionOverwriteMode": "DYNAMIC",
    "sources.useV1SourceList": "",
    "columnNameOfCorruptRecord": "n",
    "files.ignoredPathSegmentRegex": "^a",
    "functionResolution.sessionOrder": "first",
    "binaryOutputStyle": "BASE64",
    "execution.pandas.structHandlingMode": "row",
    "error.messageFormat": "MINIMAL",
    "optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.ConstantFolding",
}


@dataclass(frozen=True)
class Known:
    """All settings of this Spark with their defaults, and the static ones among them."""

    defaults: dict[str, str]
    static: frozenset[str]

    @property
    def pinned(self) -> set[str]:
        return {name for name in self.defaults if name not in self.static and not is_free(name)}

    @property
    def others(self) -> dict[str, str]:
        """Every pinned setting at another value than its default."""
        switched = {"true": "false", "false": "true"}
        found = {name: switched[self.defaults[name]] for name in self.pinned if self.defaults[name] in switched}
        found |= {n: str(int(self.defaults[n]) + 1) for n in self.pinned if self.defaults[n].isdigit()}
        return found | {PREFIX + name: value for name, value in OTHERS.items()}


@pytest.fixture(scope="module")
def known(spark: SparkSession) -> Known:
    settings = getattr(getattr(cast(Any, spark)._jvm.org.apache.spark.sql.internal, "SQLConf$"), "MODULE$")
    listed = settings.getConfigEntries().toString()
    entries = dict(re.findall(r"ConfigEntry\(key=(spark\.sql\.\S+), defaultValue=(.*?), doc=", listed))
    return Known(entries, frozenset(name for name in entries if settings.isStaticConfigKey(name)))


def odd_session(spark: SparkSession, values: Mapping[str, str]) -> SparkSession:
    """A session with many settings, set in one go."""
    odd = cloned(spark, {})
    properties = cast(Any, spark)._jvm.java.util.Properties()
    for name, value in values.items():
        properties.put(name, value)
    cast(Any, odd)._jconf.setConf(properties)
    return odd


def set_in(session: SparkSession) -> dict[str, str]:
    """All settings that a session has."""
    lines = str(cast(Any, session)._jconf.getAllConfs().mkString("\n")).split("\n")
    return dict(cast("tuple[str, str]", tuple(line.split(" -> ", 1))) for line in lines)


def test_every_setting_of_spark_was_looked_at(spark: SparkSession, known: Known) -> None:
    """One that is new here: find out whether a query's meaning depends on it, and name it in PINNED or FREE."""
    assert spark.version.startswith(".".join(map(str, READ_THROUGH)))
    assert len(known.defaults) > 800
    assert [name for name in known.defaults if rule_of(name) is None] == []
    for rule in (*PINNED, *FREE):
        named = [name for name in known.defaults if rule_of(name) is rule]
        stale = [p for p in rule.names if not any(n[len(PREFIX) :].startswith(p.rstrip("*")) for n in named)]
        assert stale == [], "no setting has such a name, or another rule says more of it"
    assert [name for name in known.defaults if name in known.static and not is_free(name)] == list(REFUSED)


def test_the_page_names_every_pinned_setting() -> None:
    page = (Path(__file__).parents[2] / "docs" / "python.md").read_text()
    table = page.partition("<!-- settings -->\n")[2].partition("<!-- /settings -->")[0].splitlines()[2:]
    assert table == [f"| {rule.why} | {', '.join(f'`{name}`' for name in rule.names)} |" for rule in PINNED]
    assert all(f"`{name}` is `{value}`" in page for name, value in VALUES.items())
    assert all(name in page for name in REFUSED)


def test_the_engines_session_has_no_pinned_setting_of_the_given_one(spark: SparkSession, known: Known) -> None:
    theirs = known.others | {"spark.sql.shuffle.partitions": "3", "spark.sql.catalog.mine": "some.Class"}
    odd = odd_session(spark, theirs)
    before, usual = set_in(odd), set_in(own_session(spark))
    found = set_in(own_session(odd))
    assert found == usual | {"spark.sql.shuffle.partitions": "3", "spark.sql.catalog.mine": "some.Class"}
    assert found.items() >= VALUES.items()
    assert set_in(odd) == before
    assert before.items() >= theirs.items()


def test_settings_that_a_newer_spark_brings_are_pinned_too() -> None:
    assert not is_free("spark.sql.someNewFamily.enabled")
    assert is_free("spark.sql.adaptive.someNewSwitch")
    assert is_free("spark.executor.memory")


def test_a_setting_that_cannot_be_pinned_is_refused_with_the_reason(spark: SparkSession) -> None:
    [name] = REFUSED
    clone = cloned(spark, {})
    cast(Any, clone)._jconf.setConfString(name, "true")
    with pytest.raises(EnvironmentProblem, match=f"{name} = true") as raised:
        Engine(spark=clone)
    assert "settings that fix what its queries mean" in str(raised.value)


# -- answers ---------------------------------------------------------------------------------------------------------

TEXTS = ["a\\b", "a'b", 'a"b', "a_b", "a%b", "axb", "\n", "n", "1", "tab\there", "A"]
CONDITIONS = {
    r"s = 'a\\b'": 1,
    r"s LIKE 'a\\_b'": 1,
    r"s LIKE 'a\\\\b'": 1,
    r"s RLIKE 'a\\\\b'": 1,
    r"s = 'a\'b'": 1,
    r"s = '\n'": 1,
    r"concat(s, '') = 'a\\b'": 1,
    's = "a\'b"': 1,
    "S = 'A'": 1,
    "ts = TIMESTAMP '2024-03-10 01:03:00'": 1,
    "cast(ts AS string) = '2024-03-10 01:03:00' AND hour(ts) = 1": 1,
    "n / 2 = 1.5": 1,
    "date_format(later, 'HH') = '12'": 11,
    "cast(raw AS date) = DATE '2024-03-10'": 11,
    "size(cast(null AS array<int>)) IS NULL": 11,
    "kind = 'even'": 6,
}
SELECTED = r"""
count(*) AS n, concat(max(s), '\\') AS m, typeof(max(d) * max(d)) AS product, max(d) / 3 AS third,
typeof(TIMESTAMP '2024-03-10 01:03:00') AS kind_of_time, to_timestamp('2024-03-10 02:30:00') AS at,
typeof(1e3) AS real, format_string('%s', max(n)) AS shown, cast(max(later) AS string) AS late, sum(twice) AS twice
"""
EXPECTED = {
    "n": 11,
    "m": "tab\there\\",
    "product": "decimal(38,6)",
    "third": Decimal("4115226300411522630.041152263004115226"),
    "kind_of_time": "timestamp",
    "at": datetime(2024, 3, 10, 2, 30, tzinfo=UTC),
    "real": "double",
    "shown": "10",
    "late": "2024-03-10 12:10:00",
    "twice": 110,
}


def files_of(folder: Path) -> Path:
    """Rows as Parquet and as CSV, and a table."""
    rows = [
        {
            "ts": datetime(2024, 3, 10, 1, i, tzinfo=UTC),
            "s": s,
            "n": i,
            "d": Decimal("12345678901234567890.123456789012345678"),
            "raw": f"2024-03-10 0{i % 10}:00:00",
        }
        for i, s in enumerate(TEXTS)
    ]
    (folder / "p").mkdir(parents=True)
    (folder / "j").mkdir()
    (folder / "t").mkdir()
    types = [("ts", pa.timestamp("us", "UTC")), ("s", pa.string()), ("n", pa.int32()), ("d", pa.decimal128(38, 18))]
    pq.write_table(pa.Table.from_pylist(rows, pa.schema([*types, ("raw", pa.string())])), folder / "p" / "a.parquet")
    lines = [json.dumps({"ts": r["raw"], "s": r["s"], "n": r["n"]}) for r in rows]
    (folder / "j" / "a.json").write_text("\n".join(lines))
    (folder / "t" / "a.csv").write_text("n,kind\n" + "\n".join(f"{i},{('even', 'odd')[i % 2]}" for i in range(11)))
    return folder


def test_queries_mean_the_same_whatever_the_session_is_set_to(
    interpreted: SparkSession, known: Known, tmp_path: Path
) -> None:
    folder = files_of(tmp_path / "in")
    odd = odd_session(interpreted, known.others)
    with Engine(spark=odd) as engine:
        engine.create_function("louder", lambda text: text.upper(), returns="string", parameters={"text": "string"})
        engine.execute(
            f"""
            CREATE STREAM p (ts TIMESTAMP, s STRING, n INT, d DECIMAL(38, 18), raw STRING,
              later TIMESTAMP GENERATED ALWAYS AS (ts + INTERVAL 11 HOURS), twice INT GENERATED ALWAYS AS (2 * n))
              USING parquet OPTIONS (path = '{folder}/p') WATERMARK FOR ts;
            CREATE STREAM j (ts TIMESTAMP, s STRING, n INT)
              USING json OPTIONS (path = '{folder}/j') WATERMARK FOR ts;
            CREATE TABLE kinds (n INT, kind STRING) USING csv OPTIONS (path = '{folder}/t', header = true)
            """
        )
        for number, condition in enumerate(CONDITIONS):
            joined = "JOIN kinds USING (n)" if "kind" in condition else ""
            window = f"p [RANGE 1 d SLIDE 1 d] {joined}"
            engine.create_query(f"q{number}", f"SELECT count(*) AS n FROM {window} WHERE {condition}")
        engine.create_query("all", f"SELECT {SELECTED} FROM p [RANGE 1 d SLIDE 1 d]")
        grouped = "SELECT louder(s) AS l, min(ts) AS first FROM j [RANGE 1 h SLIDE 1 h] GROUP BY louder(s)"
        engine.create_query("j", grouped)
        engine.process_available(flush=True)
        counted = [engine.results(f"q{number}", "rows")[0]["n"] for number in range(len(CONDITIONS))]
        [row] = engine.results("all", "rows")
        first = {one["l"]: one["first"] for one in engine.results("j", "rows")}
    assert dict(zip(CONDITIONS, counted, strict=True)) == CONDITIONS
    assert {name: row[name] for name in EXPECTED} == EXPECTED
    assert first["AXB"] == datetime(2024, 3, 10, 5, tzinfo=UTC)


# -- the program's own jobs ------------------------------------------------------------------------------------------


def test_frames_of_the_program_mean_what_its_own_session_says(interpreted: SparkSession, tmp_path: Path) -> None:
    """In every batch, and beside queries that mean what they always do."""
    from pyspark.sql import SparkSession as Session
    from pyspark.sql import functions as F

    theirs = {
        "spark.sql.session.timeZone": "America/Los_Angeles",
        "spark.sql.parser.escapedStringLiterals": "true",
        "spark.sql.timestampType": "TIMESTAMP_NTZ",
        "spark.sql.ansi.enabled": "false",
    }
    lax = cloned(interpreted, theirs)
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_text("2024-01-01 00:00:00,1\n")
    frame = lax.readStream.schema("ts TIMESTAMP_LTZ, n INT").option("maxFilesPerTrigger", 1).csv(str(folder))
    frame = frame.select("ts", "n", F.expr(r"'a\\b'").alias("s"), F.expr("n / (n - 1)").alias("q"))
    (tmp_path / "t.csv").write_text("1,2024-01-01 00:00:00\n")
    table = lax.read.schema("n INT, at TIMESTAMP_LTZ").csv(str(tmp_path / "t.csv"))
    before = cast(Any, Session.getActiveSession())
    with Engine(tmp_path / "state", spark=lax) as engine:
        engine.create_stream("s", frame, time="ts")
        engine.create_table("t", table)
        engine.create_query(
            "q",
            r"SELECT count(*) AS n, max(s) AS s, max('a\\b') AS mine, max(ts) AS ts, max(at) AS at, max(q) AS q "
            "FROM s [RANGE 1 d SLIDE 1 d] JOIN t USING (n)",
        )
        engine.process_available()
        (folder / "b.csv").write_text("2024-01-01 00:00:00,1\n")
        engine.process_available(flush=True)
        [row] = engine.results("q", "rows")
    eight = datetime(2024, 1, 1, 8, tzinfo=UTC)
    assert row["n"] == 2
    assert (row["s"], row["mine"], row["q"]) == ("a\\\\b", "a\\b", None)
    assert (row["ts"], row["at"]) == (eight, eight)
    assert cast(Any, Session.getActiveSession()) is before
    assert {name: lax.conf.get(name) for name in theirs} == theirs
