"""Reads the test cases under tests/, and collects every problem of every file."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from io import StringIO
from pathlib import Path
from typing import Any, Final

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from penstock.errors import nearest
from penstock.project.document import Place, YamlFile, place_of, scalar, shape_of, value_of
from penstock.project.files import read_text
from penstock.project.folder import Project
from penstock.project.problems import Problem

FIELDS: Final = (
    "name", "query", "rows", "tables", "batches", "clock", "flush", "expect", "contains", "expect_error",
)  # fmt: skip
Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class QueryTest:
    """One test of one query."""

    name: str
    file: str
    query: str
    text: str  # of the file, for errors that point into it
    place: Place
    rows: Mapping[str, Rows]
    tables: Mapping[str, Rows]
    batches: Mapping[str, Sequence[int]] | None = None
    clock: str | float | None = None
    flush: bool = True
    expect: Rows | None = None
    contains: Rows | None = None  # answers that must be among those found
    expect_error: str | None = None


def read_cases(project: Project) -> tuple[list[QueryTest], list[Problem]]:
    """Read every file; a case with mistakes is left out."""
    cases: list[QueryTest] = []
    problems: list[Problem] = []
    folder = project.folder / "tests"
    for path in sorted(p for p in folder.rglob("*.y*ml") if p.suffix in (".yml", ".yaml") and p.is_file()):
        shown = path.relative_to(project.folder).as_posix()
        text = read_text(path, shown)
        if isinstance(text, Problem):
            problems.append(text)
            continue
        reading = YamlFile(shown, text)
        found = list(_file(reading, path, project))
        cases += found
        problems += reading.problems
    return cases, problems


def _file(reading: YamlFile, path: Path, project: Project) -> Iterator[QueryTest]:
    """Read one file: a case, or a list of cases."""
    root = reading.root()
    if root is None:
        if not reading.problems:
            reading.complain(f"{reading.file} is empty", (0, 1), hint="Write rows and what to expect.")
        return
    several = isinstance(root, SequenceNode)
    names: set[str] = set()
    for number, node in enumerate(root.value if several else [root], 1):
        case = _case(reading, node, path, project, str(number) if several else "")
        if case is None:
            continue
        if case.name in names:
            reading.complain(f'there are two tests "{case.name}"', node)
        names.add(case.name)
        yield case


def _case(reading: YamlFile, node: Node, path: Path, project: Project, number: str) -> QueryTest | None:
    """Read one case; None if it has mistakes."""
    before = len(reading.problems)
    parts = {key: value for key, (_, value) in reading.entries(node, "a test", FIELDS).items()}
    if len(reading.problems) > before and not parts:
        return None
    query = reading.words(parts["query"], "query") if "query" in parts else path.stem
    own = reading.words(parts["name"], "the name") if "name" in parts else number
    rows = _by_name(reading, parts["rows"], "rows", path.parent) if "rows" in parts else {}
    case = QueryTest(
        name=f"{path.stem}: {own}" if own else path.stem,
        file=reading.file,
        query=query or "",
        text=reading.text,
        place=place_of(parts.get("query", node)),
        rows=rows,
        tables=_by_name(reading, parts["tables"], "tables", path.parent) if "tables" in parts else {},
        batches=_batches(reading, parts["batches"], rows) if "batches" in parts else None,
        clock=_clock(reading, parts["clock"]) if "clock" in parts else None,
        flush=reading.truth(parts["flush"], "flush") is not False if "flush" in parts else True,
        expect=_expected(reading, parts["expect"], path.parent) if "expect" in parts else None,
        contains=_expected(reading, parts["contains"], path.parent) if "contains" in parts else None,
        expect_error=reading.words(parts["expect_error"], "expect_error") if "expect_error" in parts else None,
    )
    case = replace(case, query=_checked(reading, case, parts, node, project))
    return case if len(reading.problems) == before else None


def _checked(reading: YamlFile, case: QueryTest, parts: Mapping[str, Node], node: Node, project: Project) -> str:
    """Make sure that a case tests a query that is there, on rows of streams that are there; return its name."""
    said = [name for name in ("expect", "contains", "expect_error") if name in parts]
    if len(said) != 1:
        what = (
            f"{said[0]} and {said[1]} exclude each other" if said else "a test needs expect, contains or expect_error"
        )
        reading.complain(what, _head(node), hint="Write expect: [] if there should be no answers.")
    if case.contains == []:
        reading.complain(
            "contains needs an answer", parts["contains"], hint="Write expect: [] if there should be none."
        )
    if "rows" not in parts:
        reading.complain("a test needs rows", _head(node), hint="Write rows:, a stream's name, and a list of rows.")
    for kind, given, declared in (
        ("stream", case.rows, project.settings.streams),
        ("table", case.tables, project.settings.tables),
    ):
        known = [d.item.name for d in declared]
        for name in given:
            if name.lower() not in (k.lower() for k in known) and not project.settings.may_have([name]):
                place = _place_of_key(parts["rows" if kind == "stream" else "tables"], name)
                hint = nearest(name, known)
                reading.complain(
                    f'there is no {kind} "{name}"', place, hint=hint, detail=f"{kind}s: {', '.join(known)}"
                )
    query = project.query(case.query)
    if query is None and case.query.lower() in project.unread:  # its own mistakes are told already
        return case.query
    if query is None:
        names = [q.name for q in project.queries]
        reading.complain(
            f'there is no query "{case.query}"',
            case.place if "query" in parts else _head(node),
            detail=f"queries: {', '.join(names[:8])}{', …' * (len(names) > 8)}" if names else None,
            hint=nearest(case.query, names) or (None if "query" in parts else "Add query: and the name of one."),
        )
        return case.query
    return query.name


def _head(node: Node) -> Place:
    """Return where a case begins."""
    return node.start_mark.index, node.start_mark.index + 1


def _place_of_key(node: Node, name: str) -> Place:
    """Return where a mapping has a key."""
    found = (
        [key for key, _ in node.value if getattr(key, "value", None) == name] if isinstance(node, MappingNode) else []
    )
    return place_of(found[0] if found else node)


# Rows.


def _by_name(reading: YamlFile, node: Node, what: str, folder: Path) -> dict[str, Rows]:
    """Read rows by the name of their stream or table."""
    entries = reading.entries(node, what)
    return {name: _rows(reading, value, f'rows of "{name}"', folder) for name, (_, value) in entries.items()}


def _rows(reading: YamlFile, node: Node, what: str, folder: Path) -> Rows:
    """Read rows: a list of mappings, a block of CSV, or a file of CSV."""
    if isinstance(node, SequenceNode):
        for item in node.value:
            reading.entries(item, "a row")
        return [value_of(item) for item in node.value if isinstance(item, MappingNode)]
    if isinstance(node, MappingNode):
        entries = reading.entries(node, what, ("file",))
        path = reading.words(entries["file"][1], "file") if "file" in entries else None
        return [] if path is None else _csv_file(reading, entries["file"][1], folder / path, path)
    if isinstance(node, ScalarNode) and node.style in ("|", ">", '"', "'"):
        return _csv(reading, node, str(node.value))
    reading.complain(f"{what} must be a list, a block of CSV or file:, not {shape_of(node)}", node)
    return []


def _csv_file(reading: YamlFile, node: Node, path: Path, shown: str) -> Rows:
    """Read a file of CSV."""
    text = read_text(path, shown)
    if isinstance(text, Problem):
        reading.complain(text.error.what, node, detail=text.error.detail, hint=text.error.hint)
        return []
    return _csv(reading, node, text)


def _csv(reading: YamlFile, node: Node, text: str) -> Rows:
    """Read CSV with a header; an empty cell is NULL."""
    lines = list(csv.reader(StringIO(text), skipinitialspace=True, strict=False))
    lines = [[cell.strip() for cell in line] for line in lines if line]
    if not lines:
        reading.complain("there is no header line of column names", node)
        return []
    head, rows = lines[0], []
    for number, line in enumerate(lines[1:], 1):
        if len(line) != len(head):
            reading.complain(f"row {number} has {len(line)} values for {len(head)} columns", node)
        else:
            rows.append({name: (None if cell == "" else cell) for name, cell in zip(head, line, strict=True)})
    return rows


def _expected(reading: YamlFile, node: Node, folder: Path) -> Rows:
    """Read the expected answers; an empty list or nothing means none."""
    if isinstance(node, ScalarNode) and scalar(node) is None:
        return []
    return _rows(reading, node, "expected answers", folder)


# Batches and time.


def _batches(reading: YamlFile, node: Node, rows: Mapping[str, Rows]) -> dict[str, list[int]] | None:
    """Read how many rows each batch takes: a list for one stream, or a mapping from streams to lists."""
    if isinstance(node, MappingNode):
        entries = reading.entries(node, "batches", tuple(rows))
        return {name: _cuts(reading, value, name, rows) for name, (_, value) in entries.items()}
    if len(rows) != 1:
        reading.complain("batches of several streams are a mapping", node, hint="Write batches: {trades: [2, 3]}.")
        return None
    name = next(iter(rows))
    return {name: _cuts(reading, node, name, rows)}


def _cuts(reading: YamlFile, node: Node, stream: str, rows: Mapping[str, Rows]) -> list[int]:
    """Read the numbers of rows of one stream's batches."""
    before = len(reading.problems)
    numbers = [reading.whole(item, "the number of rows of a batch") or 0 for item in reading.items(node, "batches")]
    given = len(rows.get(stream, []))
    if len(reading.problems) == before and sum(numbers) != given:
        reading.complain(f'batches take {sum(numbers)} rows, but "{stream}" has {given}', node)
    return numbers


def _clock(reading: YamlFile, node: Node) -> str | float | None:
    """Read what the clock shows: a time, or seconds since the epoch of tests."""
    value = scalar(node) if isinstance(node, ScalarNode) else None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    try:
        datetime.fromisoformat(str(value))
    except ValueError:
        reading.complain(f"clock must be a time, not {shape_of(node)}", node, hint="Write 2026-01-05 09:30:00, in UTC.")
        return None
    return str(value)
