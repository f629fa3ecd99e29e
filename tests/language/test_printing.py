"""Every statement prints back: what is printed parses to an equal value, whatever names and spellings went in."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.language.grammar.dialect import WindowClause
from penstock.language.grammar.parse import parse_statement
from penstock.language.grammar.readings import RESERVED
from penstock.language.options import OPTIONS, OptionClause
from penstock.language.statements import (
    STATEMENTS,
    AddColumns,
    AlterQuery,
    AlterSource,
    CreateFunction,
    CreateQuery,
    CreateStream,
    CreateStreamAs,
    CreateTable,
    Describe,
    Drop,
    DropColumns,
    Explain,
    Expression,
    Pause,
    Resume,
    Select,
    SetLateness,
    SetOptions,
    Show,
    ShowCreate,
    Statement,
)
from penstock.model.function import Parameter
from penstock.model.schema import Column, Stream, Table
from tests.cases import cases
from tests.language.test_bind import CONDITIONS, SCALARS, TOTALS

# Names: plain, words of the language, and anything that shows itself.
ODD = ["odd name", "a`b", "sélect", "名前", "1st", "a.b", "-- x", "/*", "it's", "Ünï", "💧"]
WORDS = sorted(RESERVED | {"window", "range", "slide", "rows", "interval", "date", "current_date", "function", "query"})
NAMES = st.sampled_from(["trades", "T2", "_x", *ODD, *WORDS]) | st.text(min_size=1, max_size=8).filter(
    lambda name: name.isprintable() and "${" not in name
)
# A table's or alias' name as text: in backquotes, or bare where it may be.
TICKED = NAMES.map(lambda name: "`" + name.replace("`", "``") + "`") | st.sampled_from(["trades", "Listing", "x_1"])
UNITS = st.sampled_from(
    """us micros microsecond microseconds ms milli millis millisecond milliseconds s sec secs second seconds min mins
    minute minutes h hr hrs hour hours d day days w week weeks""".split()  # noqa: SIM905
)
SPELLINGS = st.sampled_from(
    ["{n} {u}", "{n}{u}", "'{n} {u}'", "INTERVAL {n} {u}", "INTERVAL '{n}' {u}", "interval '{n} {u}'", "{n} {u} 1 ms"]
)
DURATIONS = st.builds(
    lambda form, n, u: form.format(n=n, u=u), SPELLINGS, st.integers(1, 900) | st.just("1.5"), UNITS
).filter(lambda text: "1.5" not in text or not ("us" in text or "micro" in text))
ROW_COUNTS = st.integers(1, 10**12)
WINDOWS = (
    st.builds("[RANGE {} SLIDE {}]".format, DURATIONS, st.sampled_from(["5 min", "'1 h'", "7 d", "INTERVAL 3 HOURS"]))
    | st.builds("[window {} slide 1 week OFFSET {}]".format, DURATIONS, DURATIONS)
    | st.builds("[RANGE {}]".format, DURATIONS)
    | st.builds("[ROWS {} SLIDE {}]".format, st.integers(1, 1000), st.integers(1, 1000))
    | st.builds("[Rows {}]".format, ROW_COUNTS)
    | st.just("")
)
DIRECTIONS = st.sampled_from(["", " ASC", " desc", " NULLS LAST", " DESC NULLS FIRST", " ASC NULLS FIRST"])
CLAUSES = st.builds(
    WindowClause,
    st.just("RANGE"),
    st.integers(1, 10**12),
    st.none() | st.integers(10**6, 10**15),
    st.integers(0, 10**9),
) | st.builds(WindowClause, st.just("ROWS"), st.integers(1, 10**6), st.none() | st.integers(1, 10**9), st.just(0))
VALUES = st.integers(0, 10**18 - 1) | st.text(max_size=12)
OPTION_LISTS = st.lists(
    st.builds(
        OptionClause,
        st.sampled_from(list(OPTIONS)) | NAMES.map(str.lower),
        VALUES.filter(lambda v: isinstance(v, int) or all(not "\ud800" <= c <= "\udfff" for c in v)),
    ),
    min_size=1,
    max_size=3,
).map(tuple)
AGGREGATES = TOTALS | st.sampled_from(
    [
        "count(DISTINCT symbol)",
        "median(price)",
        "top(3, symbol, volume)",
        "percentile(price, 0.5)",
        "first(price)",
        "approx_count_distinct(symbol)",
        "window.start",
        "*",
        "t.*",
        "`odd function`(price)",
        "s.`select`.b",
    ]
)


@st.composite
def selects(draw: st.DrawFn) -> str:
    """Write a SELECT with any window, joins, keys, HAVING and options."""
    items = draw(
        st.lists(
            st.builds("{}{}".format, AGGREGATES, st.just("") | TICKED.map(" AS {}".format)), min_size=1, max_size=3
        )
    )
    source = f"{draw(TICKED)} {draw(WINDOWS)} {draw(st.just('') | TICKED.map('AS {}'.format))}"
    text = f"SELECT {draw(st.sampled_from(['', '', 'DISTINCT ']))}{', '.join(items)} FROM {source}"
    for kind in draw(st.lists(st.sampled_from([", {}", " JOIN {}", " LEFT JOIN {}"]), max_size=2)):
        text += kind.format(f"{draw(TICKED)} {draw(WINDOWS)} AS {draw(TICKED)}")
        if "JOIN" in kind:
            text += draw(st.builds(" ON {}".format, CONDITIONS) | st.builds(" USING ({})".format, TICKED))
    if draw(st.booleans()):
        text += f" WHERE {draw(CONDITIONS)}"
    if keys := draw(st.lists(SCALARS | st.just("window(ts, '12 minutes', '5 minutes')"), max_size=2)):
        text += f" GROUP BY {', '.join(keys)}"
    if draw(st.booleans()):
        text += f" HAVING {draw(CONDITIONS)}"
    if sorted_by := draw(st.lists(st.builds("{}{}".format, TOTALS | TICKED, DIRECTIONS), max_size=2)):
        text += f" ORDER BY {', '.join(sorted_by)}"
    for clause in ("LIMIT", "OFFSET"):
        text += draw(st.just("") | ROW_COUNTS.map(f" {clause} {{}}".format))
    if options := draw(st.just(()) | OPTION_LISTS):
        text += f" WITH ({', '.join(map(str, options))})"
    return text


SELECTS = selects().map(parse_statement)
TYPES = st.sampled_from(
    ["bigint", "string", "decimal(10,2)", "array<struct<a:int,`b c`:map<string,double>>>", "timestamp"]
)
SOURCE_OPTIONS = st.dictionaries(
    st.sampled_from(["path", "kafka.group.id", "header", "odd key", "it's", "maxFilesPerTrigger"]),
    st.text(max_size=10),
    max_size=3,
).filter(lambda d: all(not "\ud800" <= c <= "\udfff" for v in d.values() for c in v))
FORMATS = st.sampled_from(["parquet", "csv", "json", "org.example.source", "select"])


def columns(names: list[str], types: list[str]) -> tuple[Column, ...]:
    return tuple(Column(name, type_) for name, type_ in zip(names, types, strict=False))


COLUMNS = st.builds(columns, st.lists(NAMES, max_size=4, unique_by=str.lower), st.lists(TYPES, min_size=4, max_size=4))


LENGTHS_OR_NONE = st.just(0) | st.integers(1, 10**12)


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    own = tuple(c for c in draw(COLUMNS) if c.name.lower() not in ("ts", "c"))
    computed = draw(st.sampled_from([None, "timestamp_millis(`c` * 1000)", "coalesce(`c`, TIMESTAMP '2026-01-01')"]))
    own = (*own, Column("ts", "timestamp", computed), Column("c", "bigint")) if own else ()
    return Stream(
        draw(NAMES),
        own,
        "ts",
        draw(st.integers(0, 10**12)),
        draw(st.integers(0, 10**12) | st.just(600_000_000)),
        draw(FORMATS),
        draw(SOURCE_OPTIONS),
        draw(LENGTHS_OR_NONE),
        tuple(c.name for c in own if "map<" not in c.type and draw(st.booleans())),
        draw(LENGTHS_OR_NONE),
    )


BODIES = SCALARS.map(lambda text: parse_statement(f"SELECT {text} FROM t"))
FUNCTIONS = st.builds(
    lambda name, names, type_, returns, select, flags: CreateFunction(
        name,
        tuple(Parameter(own, type_) for own in names),
        returns,
        Expression(select.expression.expressions[0], select.text),
        *flags,
    ),
    NAMES,
    st.lists(NAMES, max_size=3, unique_by=str.lower),
    TYPES,
    st.none() | TYPES,
    BODIES,
    st.sampled_from([(False, False), (True, False), (False, True)]),
)
KINDS = st.sampled_from(["query", "stream", "table", "function"])
FLAGS = st.sampled_from([(False, False), (True, False), (False, True)])
TABLES = st.builds(Table, NAMES, COLUMNS, FORMATS, SOURCE_OPTIONS)
SOURCE_CHANGES = st.one_of(
    st.builds(AddColumns, COLUMNS.filter(bool)),
    st.builds(DropColumns, st.lists(NAMES, min_size=1, max_size=3).map(tuple)),
    st.builds(SetOptions, SOURCE_OPTIONS.map(lambda options: tuple(options.items()))),
)
LATENESS = st.builds(SetLateness, NAMES, st.integers(0, 10**12))
BY_KIND: dict[str, st.SearchStrategy[Statement]] = {
    "SELECT": SELECTS,
    "CREATE STREAM": st.builds(lambda stream, flags: CreateStream(stream, *flags), streams(), FLAGS),
    "CREATE STREAM AS": st.builds(CreateStreamAs, NAMES, SELECTS, st.booleans()),
    "CREATE TABLE": st.builds(lambda table, flags: CreateTable(table, *flags), TABLES, FLAGS),
    "CREATE QUERY": st.builds(lambda name, select, flags: CreateQuery(name, select, *flags), NAMES, SELECTS, FLAGS),
    "CREATE FUNCTION": FUNCTIONS,
    "DROP": st.builds(Drop, KINDS, NAMES, st.booleans()),
    "ALTER QUERY AS": st.builds(AlterQuery, NAMES, SELECTS),
    "ALTER QUERY SET WINDOW": st.builds(AlterQuery, NAMES, CLAUSES),
    "ALTER QUERY SET": st.builds(AlterQuery, NAMES, OPTION_LISTS),
    "ALTER QUERY PAUSE": st.builds(AlterQuery, NAMES, st.just(Pause())),
    "ALTER QUERY RESUME": st.builds(AlterQuery, NAMES, st.just(Resume())),
    "ALTER STREAM": st.builds(AlterSource, st.just("stream"), NAMES, SOURCE_CHANGES | LATENESS),
    "ALTER TABLE": st.builds(AlterSource, st.just("table"), NAMES, SOURCE_CHANGES),
    "EXPLAIN": st.just(Explain()),
    "EXPLAIN QUERY": st.builds(Explain, NAMES),
    "EXPLAIN SELECT": st.builds(Explain, SELECTS),
    "SHOW": st.builds(Show, st.sampled_from(["streams", "tables", "queries", "functions"])),
    "SHOW CREATE": st.builds(ShowCreate, KINDS, NAMES),
    "DESCRIBE": st.builds(Describe, KINDS, NAMES),
}


def test_every_kind_of_statement_is_generated_here() -> None:
    assert [syntax.head for syntax in STATEMENTS] == list(BY_KIND)


@settings(max_examples=max(cases(400), settings().max_examples))
@given(st.one_of(*BY_KIND.values()))
@example(Drop("query", "`"))
@example(Explain("select"))
def test_what_a_statement_prints_parses_to_an_equal_one(statement: Statement) -> None:
    printed = str(statement)
    assert parse_statement(printed) == statement
    assert str(parse_statement(f" {printed} ; -- done")) == printed


@settings(max_examples=max(cases(100), settings().max_examples))
@given(selects())
def test_a_query_keeps_what_it_says_through_print_and_parse(text: str) -> None:
    select = parse_statement(text)
    assert isinstance(select, Select)
    again = parse_statement(str(select))
    assert again == select
    assert hash(again) == hash(select)
    assert "\n" not in str(select)


@given(DURATIONS, DURATIONS)
def test_a_duration_means_the_same_however_it_is_spelled(length: str, slide: str) -> None:
    select = parse_statement(f"SELECT 1 FROM t [RANGE 100 d SLIDE 1 d OFFSET {length}]")
    printed = str(select).partition("[")[2]
    assert parse_statement(f"SELECT 1 FROM t [{printed}") == select
    assert parse_statement(f"ALTER QUERY q SET (keep = {slide})") == parse_statement(
        f"alter query q set (KEEP = {' '.join(slide.split())});"
    )


@pytest.mark.parametrize("word", WORDS)
def test_a_word_of_the_language_may_name_anything_in_backquotes(word: str) -> None:
    name = f"`{word}`"
    text = (
        f"SELECT {name}, {name}(x) AS {name}, a.{name}.{name}, count(DISTINCT {name}) FROM {name} [ROWS 5] AS {name} "
        f"LEFT JOIN {name} AS b USING ({name}) WHERE {name} = 1 GROUP BY {name}, {name}.{name}"
    )
    select = parse_statement(text)
    assert parse_statement(str(select)) == select
    assert word in str(select)


def test_two_texts_that_say_the_same_are_equal_and_others_are_not() -> None:
    one = parse_statement("SELECT  sum( T.price )\nFROM Trades T [WINDOW 60 s SLIDE '1 min'] -- x")
    same = parse_statement("select SUM((T.`price`)) from Trades as T [range 1 min slide 1 min];")
    other = parse_statement("SELECT sum(T.price) FROM Trades T [RANGE 60 s SLIDE 2 min]")
    assert one == same
    assert one != other
    assert len({one, same, other}) == 2
    assert one != "SELECT"


@pytest.mark.parametrize(
    "text", ["SELECT 1 FROM t [RANGE 1 MONTH SLIDE 1 d]", "SELECT 1 FROM t [RANGE 1 d SLIDE 1 YEAR]"]
)
def test_months_and_years_are_refused_with_the_reason(text: str) -> None:
    with pytest.raises(Exception, match="has no fixed length") as raised:
        parse_statement(text)
    assert "months, quarters and years differ in length" in str(raised.value)
