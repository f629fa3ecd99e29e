"""Runs a project's test cases, and describes in words where answers differ from those expected."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from penstock.errors import EnvironmentProblem, PenstockError, QueryFailed
from penstock.model.schema import Column, Stream
from penstock.project.cases import QueryTest
from penstock.project.declarations import Declared
from penstock.project.folder import Project
from penstock.project.opening import create_statement
from penstock.project.problems import Problem, in_file

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.testing import TestBed


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """What came of a case; it passed if there is no difference."""

    case: QueryTest
    differences: tuple[str, ...]
    seconds: float
    found: tuple[Mapping[str, Any], ...] = ()  # the answers, as JSON can hold them

    @property
    def passed(self) -> bool:
        """Tell whether all was as expected."""
        return not self.differences


class Trials:
    """Runs cases on one Spark session; remembers the columns that files told."""

    def __init__(self, project: Project) -> None:
        """Prepare for the cases of a project."""
        self.project = project
        self._found: dict[str, tuple[Column, ...]] = {}  # by stream or table; no two have one name

    def prepare(self) -> None:
        """Start Spark as the project asks; the beds find it running."""
        from penstock.project.opening import start_spark

        start_spark(self.project)

    def run(self, case: QueryTest) -> TrialOutcome:
        """Run one case; an error is a difference unless it was expected."""
        from penstock.sinks.row_values import plain_rows
        from penstock.testing import compare, compare_some

        began = time.perf_counter()
        try:
            found = self._answers(case)
        except EnvironmentProblem:
            raise
        except PenstockError as error:
            return TrialOutcome(case, _about_error(self.project, case, error), time.perf_counter() - began)
        if case.expect_error is not None:
            what = f"expected an error with {case.expect_error!r}, but got {found.num_rows} answers"
            differences: Sequence[str] = [what]
        elif case.contains is not None:
            differences = compare_some(found, case.contains)
        else:
            differences = compare(found, case.expect or [])
        return TrialOutcome(case, tuple(differences), time.perf_counter() - began, tuple(plain_rows(found)))

    def _answers(self, case: QueryTest) -> pa.Table:
        """Answer a case's query over its rows."""
        from penstock.testing import ManualClock, TestBed

        query = self.project.query(case.query)
        assert query is not None
        clock = None if case.clock is None else ManualClock(case.clock)
        with TestBed(clock=clock) as bed:
            self._declare(bed, case)
            for one in self.project.files:  # those that make streams come first
                if one.makes_stream or one is query:
                    bed.engine.execute(one.statement)
            for stream, rows in case.rows.items():
                cuts = (case.batches or {}).get(stream, [len(rows)])
                bed.feed_in_cuts(stream, rows, cuts)
            if case.flush:
                bed.flush()
            if (reason := bed.paused(query.name)) is not None:
                raise QueryFailed(f'query "{query.name}" is paused: {reason}')
            return bed.results(query.name)

    def _declare(self, bed: TestBed, case: QueryTest) -> None:
        """Declare the project's streams, tables and functions, with the case's own rows where it has some."""
        given = {name.lower(): rows for name, rows in case.tables.items()}
        for declared in self.project.settings.streams:
            assert isinstance(declared.item, Stream)
            bed.declare(replace(declared.item, columns=self._columns(bed, declared)))
        for declared in self.project.settings.tables:
            name = declared.item.name
            if name.lower() in given:
                bed.table(name, given[name.lower()], schema=self._columns(bed, declared))
            else:
                bed.engine.execute(create_statement(declared))
        for function in self.project.functions:
            function.enter(bed.engine)

    def _columns(self, bed: TestBed, declared: Declared) -> tuple[Column, ...]:
        """Return declared columns, or those that Spark finds in the files, looked for once."""
        item = declared.item
        if declared.with_columns:
            return item.columns
        if item.name not in self._found:
            from penstock.spark.sources.reading import inferred_columns

            self._found[item.name] = inferred_columns(bed.engine.session, item)
        return self._found[item.name]


def _about_error(project: Project, case: QueryTest, error: PenstockError) -> tuple[str, ...]:
    """Compare an error with the one expected: its code, or a part of its text."""
    wanted = case.expect_error
    if wanted is not None and (wanted == error.code or wanted.lower() in str(error).lower()):
        return ()
    query = project.query(case.query)
    shown = str(in_file(error, query.file, query.text) if query and error.place else Problem(error))
    if wanted is not None:
        return (f"expected an error with {wanted!r}, but got", *shown.splitlines())
    return tuple(shown.splitlines())
