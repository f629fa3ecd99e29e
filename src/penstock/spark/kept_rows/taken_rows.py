"""Stores the rows that continuous queries take, each once, by commit, with what tells who takes them.

A commit's rows are a folder of Parquet files: the expressions that some query answers, the row's fragment in every part
of the conditions, and its time. Beside it stand a record, the plan that it is of, and the fragments that the plan had
not met before. All are written before the commit; what a crash leaves without one is forgotten at the restart.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from penstock.kernel.takers import Takers
from penstock.spark.kept_rows.commit_folders import CommitFolders, CommitSpan
from penstock.store.arrow_files import arrow_file, read_arrow_file
from penstock.store.files import damaged, make_folder, names_in, read_record, remove, write_record, write_whole
from penstock.store.taken_plan import TakenCommit, TakenPlan

AT_ONCE: Final = 65_536  # rows that are read together
EXPIRED: Final = "expired.json"


class TakenRows:
    """The rows of one stream that its continuous queries took; any thread may read while one adds."""

    def __init__(self, folder: Path) -> None:
        """Open the folder; after a crash call :meth:`forget_after` first."""
        self.folder = folder.absolute()
        self.folders = CommitFolders(self.folder, "taken")
        self._changing = threading.Lock()
        self._plans: dict[int, tuple[TakenPlan, Takers]] = {}
        self._commits = {number: self._read_commit(number) for number in self._numbers("", ".json")}
        expired = self.folder / EXPIRED
        self._expired = int(read_record(expired)["upto"]) if expired.exists() else -1

    # -- what is there -------------------------------------------------------------------------------------------

    def commits(self, after: int = -1) -> list[TakenCommit]:
        """List the commits that stored rows after a number, oldest first."""
        return [one for number, one in sorted(self._commits.copy().items()) if number > after]

    def last(self) -> int | None:
        """Return the number of the last commit that stored rows; None: there is none."""
        return max(self._commits.copy(), default=None)

    @property
    def expired(self) -> int:
        """Return the last commit whose rows are gone; −1: none are."""
        return self._expired

    def definitions(self) -> set[int]:
        """List the queries that rows are stored for."""
        numbers = {one.plan for one in self._commits.copy().values()}
        return {query.definition for number in numbers for query in self.plan(number)[0].queries}

    def plan(self, number: int) -> tuple[TakenPlan, Takers]:
        """Return a plan and who takes its fragments, read once."""
        with self._changing:
            if number not in self._plans:
                path = self.folder / f"plan-{number:012d}.json"
                try:
                    plan = TakenPlan.from_record(read_record(path))
                except (KeyError, TypeError, ValueError) as error:
                    raise damaged(path, "it is not a plan of continuous queries") from error
                takers = Takers(len(plan.sizes))
                for commit in self._numbers(f"plan-{number:012d}-", ".fragments"):
                    takers.load(read_arrow_file(self._fragments(number, commit), None))
                self._plans[number] = plan, takers
            return self._plans[number]

    def pieces(self, commit: TakenCommit, columns: Sequence[str] | None = None) -> Iterator[tuple[int, pa.Table]]:
        """Read a commit's rows piece by piece, each with the ordinal of its first row."""
        first = 0
        for path in sorted(self.folders.path(CommitSpan(commit.number, commit.number)).glob("*.parquet")):
            try:
                file = pq.ParquetFile(path)
                known = set(file.schema_arrow.names)
                chosen = None if columns is None else [name for name in columns if name in known]
                for batch in file.iter_batches(AT_ONCE, columns=chosen):
                    yield first, pa.Table.from_batches([batch])
                    first += batch.num_rows
            except (OSError, pa.ArrowInvalid) as error:
                if commit.number not in self._commits:
                    return  # it expired meanwhile
                raise damaged(path, error) from error

    # -- what comes ----------------------------------------------------------------------------------------------

    def begin_plan(self, plan: TakenPlan, takers: Takers) -> None:
        """Store a plan, before rows of it are; who takes its fragments is worked out by whoever runs it."""
        make_folder(self.folder)
        write_record(self.folder / f"plan-{plan.number:012d}.json", plan.to_record(), "taken.plan")
        with self._changing:
            self._plans[plan.number] = plan, takers

    def write(self, rows: DataFrame | pa.Table, number: int) -> None:
        """Store a commit's rows; the same commit again replaces them."""
        self.folders.write(rows, number)

    def stored(self, number: int) -> CommitSpan | None:
        """Return where a commit's rows are; None: it has none."""
        span = CommitSpan(number, number)
        return span if span in self.folders.spans else None

    def add_fragments(self, plan: int, number: int, added: pa.Table) -> None:
        """Store the fragments that a plan had not met before a commit."""
        if added.num_rows:
            content = arrow_file(added)
            write_whole(self._fragments(plan, number), lambda file: file.write(content), "taken.fragments")

    def add(self, commit: TakenCommit) -> None:
        """Record a commit that is about to be made."""
        write_record(self.folder / f"{commit.number:012d}.json", asdict(commit), "taken.record")
        self._commits[commit.number] = commit

    # -- what goes -----------------------------------------------------------------------------------------------

    def forget(self, number: int) -> None:
        """Forget what was written for a commit that is not made yet."""
        self._commits.pop(number, None)
        remove(self.folder / f"{number:012d}.json")
        self.folders.remove([span for span in self.folders.spans if span.last == number])

    def forget_after(self, number: int) -> None:
        """Forget what commits wrote that never were."""
        self.folders.forget_after(number)
        for one in [one for one in self._commits if one > number]:
            del self._commits[one]
            remove(self.folder / f"{one:012d}.json")
        with self._changing:
            self._plans.clear()
            self._sweep(number)

    def require(self, number: int, rows: int) -> None:
        """Miss the rows of a commit that says it took so many."""
        known = self._commits.get(number)
        if rows and number > self._expired and (known is None or known.rows != rows or self.stored(number) is None):
            raise damaged(self.folder / f"{number:012d}.json", "it does not exist, but a commit names its rows")

    def expire(self, numbers: Sequence[int]) -> None:
        """Delete the rows of commits, and plans that no other commit is of."""
        if not numbers:
            return
        upto = max(self._expired, *numbers)
        write_record(self.folder / EXPIRED, {"upto": upto})
        self._expired = upto
        for number in numbers:
            self._commits.pop(number, None)
        self.folders.remove([span for span in self.folders.spans if span.last in numbers])
        for number in numbers:
            remove(self.folder / f"{number:012d}.json")

    def expire_plans(self, current: int | None) -> None:
        """Delete plans, but for the current one, that no commit is of."""
        with self._changing:
            used = {one.plan for one in self._commits.values()} | ({current} if current is not None else set())
            for number in set(self._numbers("plan-", ".json")) - used:
                self._remove_plan(number)

    # -- inside --------------------------------------------------------------------------------------------------

    def _fragments(self, plan: int, number: int) -> Path:
        """Name the file of the fragments that a commit brought."""
        return self.folder / f"plan-{plan:012d}-{number:012d}.fragments"

    def _sweep(self, number: int) -> None:
        """Remove plans and fragments of commits that never were."""
        for plan in self._numbers("plan-", ".json"):
            if plan > number:
                self._remove_plan(plan)
            for commit in self._numbers(f"plan-{plan:012d}-", ".fragments"):
                if commit > number:
                    remove(self._fragments(plan, commit))
        for name in names_in(self.folder) if self.folder.is_dir() else ():
            if name.endswith(".draft"):
                remove(self.folder / name)

    def _remove_plan(self, plan: int) -> None:
        """Remove a plan and its fragments."""
        self._plans.pop(plan, None)
        for commit in self._numbers(f"plan-{plan:012d}-", ".fragments"):
            remove(self._fragments(plan, commit))
        remove(self.folder / f"plan-{plan:012d}.json")

    def _numbers(self, before: str, after: str) -> list[int]:
        """List the numbers in the names of some files, in order."""
        names = names_in(self.folder) if self.folder.is_dir() else []
        bare = [name[len(before) : -len(after)] for name in names if name.startswith(before) and name.endswith(after)]
        return [int(number) for number in bare if number.isdigit()]

    def _read_commit(self, number: int) -> TakenCommit:
        """Read the record of a commit."""
        path = self.folder / f"{number:012d}.json"
        try:
            return TakenCommit(**read_record(path))
        except TypeError as error:
            raise damaged(path, "it is not a record of rows") from error


def numbers_of(table: pa.Table, name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Read a column of whole numbers."""
    return np.asarray(table[name].cast(pa.int64()).to_numpy(), np.int64)
