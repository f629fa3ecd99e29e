"""The documentation is true: its examples run, and nothing that users can write or meet is missing in it."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

from penstock import errors
from penstock.cli import EXIT_CODES, cli
from penstock.cli.group import SECTIONS
from penstock.engine import Engine
from penstock.errors import PenstockError
from penstock.evaluate.functions.registry import FUNCTIONS
from penstock.language.binding.aggregate_signatures import SIGNATURES
from penstock.language.binding.canonical import render
from penstock.language.binding.functions import AGGREGATES, SCALAR
from penstock.language.binding.scope import Scope, Source, resolve
from penstock.language.grammar.limits import LIMITS
from penstock.language.grammar.parse import parse_expression
from penstock.language.options import OPTIONS
from penstock.language.statements import STATEMENTS
from penstock.project.cases import FIELDS
from penstock.project.declarations import COLUMN_SETTINGS, STREAM_SETTINGS, TABLE_SETTINGS
from penstock.project.settings import DEFAULT_SETTINGS, SETTINGS, SPARK_SETTINGS
from penstock.schedule.registry import POLICIES
from penstock.sinks.registry import SINKS, declared_kinds
from penstock.sources.registry import FORMATS
from penstock.testing import TestBed
from tests.shell import Penstock, penstock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["penstock"]  # a fixture

HOUSE = Path(__file__).resolve().parents[1]
DOCS = HOUSE / "docs"
BLOCK = re.compile(r"^```(?P<info>[a-z]+[^\n]*)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    info: str
    body: str
    line: int
    printed: str | None  # the text block right after it


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def blocks(name: str) -> list[Block]:
    text = page(name)
    found = list(BLOCK.finditer(text))
    made = []
    for number, match in enumerate(found):
        after = found[number + 1] if number + 1 < len(found) else None
        between = text[match.end() : after.start()].strip() if after else "…"
        printed = after["body"] if after and after["info"] == "text" and between in ("", "prints") else None
        made.append(Block(match["info"], match["body"], text[: match.start()].count("\n") + 1, printed))
    return made


def headings(name: str) -> set[str]:
    return set(re.findall(r"^#+ (.+)$", page(name), re.MULTILINE))


# -- examples run ------------------------------------------------------------------------------------------------


def run_sql(engine: Engine, block: Block, number: int) -> None:
    if block.body.lstrip().upper().startswith("SELECT"):
        for position, text in enumerate(block.body.split(";\n")):
            engine.create_query(f"example_{number}_{position}", text)
    else:
        engine.execute(block.body)


def expect_refusal(engine: Engine, block: Block, number: int) -> PenstockError:
    with pytest.raises(PenstockError) as caught:
        run_sql(engine, block, number)
    if block.printed is not None:
        assert str(caught.value) == block.printed.rstrip("\n"), f"line {block.line}"
    return caught.value


def test_the_language_page_runs(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HOUSE)
    with Engine(spark=spark) as engine:
        for number, block in enumerate(blocks("language.md")):
            if block.info == "sql":
                run_sql(engine, block, number)
            elif block.info == "sql refused":
                expect_refusal(engine, block, number)
        engine.process_available(flush=True)
        silent = [n for n in engine.catalog.query_names() if not engine.results(n).num_rows]
        assert silent == []
        assert engine.stream("trades").pipeline.reports == []


def test_every_error_with_an_example_is_raised_by_it(spark: SparkSession) -> None:
    text = page("errors.md")
    with TestBed(spark) as bed:
        engine = bed.engine
        bed.stream("trades", "ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT")
        engine.create_table("listing", spark.createDataFrame([], "symbol STRING, sector STRING"))
        engine.create_table("halts", spark.createDataFrame([], "symbol STRING, reason STRING"))
        engine.create_query("pace", "SELECT count(*) AS n FROM trades [RANGE 1 MIN SLIDE 1 MIN]")
        for number, block in enumerate(blocks("errors.md")):
            if block.info == "sql refused":
                section = re.findall(r"^#+ (\w+)$", "\n".join(text.splitlines()[: block.line]), re.MULTILINE)[-1]
                assert expect_refusal(engine, block, number).code == section


@pytest.fixture
def tables_as_before() -> Iterator[None]:
    """Take out again what a page puts into the tables of what can be added."""
    tables: tuple[MutableMapping[str, Any], ...] = (FORMATS, SINKS, FUNCTIONS, SIGNATURES, POLICIES, OPTIONS)
    tables = (*tables, SECTIONS, cli.commands)
    before = [dict(table) for table in tables]
    yield
    for table, known in zip(tables, before, strict=True):
        table.clear()
        table.update(known)


@pytest.fixture
def here(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let Python and Spark both begin relative paths in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)
    of_java: Any = spark
    hadoop = of_java._jvm.org.apache.hadoop.fs
    files = hadoop.FileSystem.getLocal(of_java._jsc.hadoopConfiguration())
    before = files.getWorkingDirectory()
    files.setWorkingDirectory(hadoop.Path(str(tmp_path)))
    yield
    files.setWorkingDirectory(before)


@pytest.mark.parametrize(
    "name",
    [
        "answers.md",
        "changing.md",
        "continuous-queries.md",
        "extending.md",
        "python.md",
        "sharing.md",
        "shedding.md",
        "testing.md",
        "weave.md",
    ],
)
def test_python_pages_run(name: str, here: None, tables_as_before: None) -> None:
    names: dict[str, Any] = {"__name__": "__docs__"}
    for block in blocks(name):
        if block.info != "python":
            continue
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile("\n" * block.line + block.body, str(DOCS / name), "exec"), names)
        if block.printed is not None:
            assert out.getvalue() == block.printed, f"{name}, line {block.line}"


def matches(found: str, told: str) -> bool:
    """Compare what a command printed with the page, where a line of … stands for any lines, and seconds differ."""
    found, told = (re.sub(r"\d+\.\d s\b", "0.0 s", text) for text in (found, told))
    parts = [re.escape(part) for part in re.split(r"^…$\n?", told, flags=re.MULTILINE)]
    return re.fullmatch("(?:.*\n)*".join(parts), found) is not None


def test_the_quickstart_runs(
    spark: SparkSession, penstock: Penstock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks("quickstart.md"):
        if block.info == "console":
            command, _, told = block.body.partition("\n")
            done = penstock(*shlex.split(command.removeprefix("$ penstock ")))
            assert done.code == 0, f"{command}: {done.err}"
            assert matches(done.out, told), f"line {block.line}: {command} printed\n{done.out}"
    assert "<svg" in (tmp_path / "sharing.html").read_text(encoding="utf-8")
    written = (tmp_path / "market" / "queries" / "vwap.sql").read_text(encoding="utf-8")
    assert [b.body for b in blocks("quickstart.md") if b.info == "sql"] == [written]


def test_the_settings_of_the_project_page_are_right(penstock: Penstock, tmp_path: Path) -> None:
    settings, case = (b.body for b in blocks("project.md") if b.info == "yaml")
    query, function = (b.body for b in blocks("project.md") if b.info == "sql")
    files = {"penstock.yml": settings, "queries/vwap.sql": query, "functions/notional.sql": function}
    for name, text in (files | {"tests/vwap.yml": case}).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    done = penstock("check", tmp_path)
    assert done.code == 0, done.err + done.out


def example_values() -> dict[str, str]:
    rows = re.findall(r"^\| `(.+?)` \| `(.*?)` \|$", page("functions.md"), re.MULTILINE)
    return {expression.replace("\\|", "|"): value.replace("\\|", "|") for expression, value in rows}


def test_every_function_has_an_example_that_gives_what_the_page_says(spark: SparkSession) -> None:
    examples = example_values()
    row = Source("stream", "t", "t", ("x", "s"))
    texts = [render(resolve(parse_expression(e), Scope(e, [row])), lambda c: c.name) for e in examples]
    frame = spark.sql("SELECT 1 AS x, 'a' AS s").selectExpr(*(f"cast({t} as string)" for t in texts))
    found = frame.collect()[0]
    told = {e: ("NULL" if v is None else v) for e, v in zip(examples, found, strict=True)}
    assert told == examples
    named = {name.lower() for e in examples for name in re.findall(r"([a-z_0-9]+)\(", e)}
    assert SCALAR - named == set()


# -- nothing is missing ------------------------------------------------------------------------------------------


def test_every_aggregate_is_on_the_language_page() -> None:
    text = page("language.md")
    assert {name for name in AGGREGATES if f"`{name}" not in text} == set()


def test_every_error_is_on_the_errors_page() -> None:
    kinds = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, PenstockError)]
    assert {k.__name__ for k in kinds if k is not PenstockError} - headings("errors.md") == set()
    tree = errors.__doc__ or ""
    assert {k.__name__ for k in kinds if k.__name__ not in tree} == set()


def between(name: str, tag: str) -> list[list[str]]:
    """Read a page's table between two comments, without its head."""
    part = page(name).split(f"<!-- {tag} -->", 1)[1].split(f"<!-- /{tag} -->", 1)[0]
    cells = [
        [c.strip().replace("\\|", "|") for c in re.split(r"(?<!\\)\|", line)[1:-1]] for line in part.split("\n")[1:-1]
    ]
    return cells[2:]


def test_the_page_lists_every_statement_option_and_limit_as_it_is() -> None:
    assert between("language.md", "statements") == [[f"`{s.syntax}`", s.meaning] for s in STATEMENTS]
    assert between("language.md", "options") == [
        [f"`{o.name}`", o.values, o.default or "", ", ".join(f"`{h}`" for h in o.honoured), o.meaning]
        for o in OPTIONS.values()
    ]
    assert between("language.md", "limits") == [[one.name, f"{one.value:,}", one.meaning] for one in LIMITS]


def test_every_statement_has_an_example() -> None:
    examples = " ".join(" ".join(b.body.split()) for b in blocks("language.md"))
    not_built = {"CREATE STREAM AS"}  # refused by name
    paused = {"ALTER QUERY RESUME"}  # needs a query that failed: see tests/stream/test_failures.py
    heads = {s.head for s in STATEMENTS} - not_built - paused
    assert {h for h in heads if not re.search(h.replace(" ", r"( \w+)? "), examples)} == set()


def test_every_command_and_option_is_on_the_command_line_page() -> None:
    text = page("cli.md")
    for name, command in cli.commands.items():
        section = text.split(f"### penstock {name}", 1)
        assert len(section) == 2, f"penstock {name}"
        told = section[1].split("\n### ", 1)[0]
        flags = [flag for p in command.params if isinstance(p, click.Option) for flag in p.opts]
        assert {flag for flag in flags if f"`{flag}" not in told} == set(), f"penstock {name}"


def test_exit_codes_are_those_of_the_command_line() -> None:
    told = dict(re.findall(r"^\| (\d+) \| (.+) \|$", page("cli.md"), re.MULTILINE))
    assert told == {str(code): meaning for code, meaning in EXIT_CODES.items()}


def test_every_setting_of_a_project_is_on_its_page() -> None:
    told = set(re.findall(r"`([a-z_]+)`", page("project.md")))
    sinks = [name for kind in declared_kinds() for name in (kind, *(one.name for one in SINKS[kind].settings))]
    known = [*SETTINGS, *DEFAULT_SETTINGS, *SPARK_SETTINGS, *STREAM_SETTINGS, *TABLE_SETTINGS, *COLUMN_SETTINGS]
    assert {*known, *sinks, *FIELDS} - told == set()


def test_every_page_is_in_the_index() -> None:
    assert {p.name for p in DOCS.glob("*.md")} - {"README.md"} == set(
        re.findall(r"\]\(([\w-]+\.md)\)", page("README.md"))
    )


def test_the_glossary_names_every_word_once_and_classes_that_are_there() -> None:
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| (.+) \|$", page("glossary.md"), re.MULTILINE)
    words = [word for word, *_ in rows if word not in ("word", "---")]
    assert len(words) == len(set(words)) > 70
    for _, _, carried in rows:
        for name, file in re.findall(r"`(\w+)` in `([\w/]+\.py)`", carried):
            source = (HOUSE / "src" / "penstock" / file).read_text(encoding="utf-8")
            assert re.search(rf"^(class {name}\b|{name} = )", source, re.MULTILINE), f"{name} in {file}"


def test_the_glossary_has_every_word_that_the_architecture_explains() -> None:
    text = (HOUSE / "ARCHITECTURE.md").read_text(encoding="utf-8").split("\n## Words\n", 1)[1].split("\n## ", 1)[0]
    told = {word.lower() for word in re.findall(r"\*(\w+)\*:", text)}
    assert told
    assert {word for word in told if f"\n| {word} |" not in page("glossary.md")} == set()
