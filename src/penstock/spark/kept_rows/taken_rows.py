"""Stores the rows that continuous queries take, each once, by commit, with what tells who takes them.

A commit's rows are a folder of Parquet files: the expressions that some query answers, the row's fragment in every part
of the conditions, and its time. Beside it stand a record, the plan that it is of, and the fragments that the plan had
not met before. All are written before the commit; what a crash leaves without one is forgotten at the restart.

Small folders of commits of one plan are put together, and their records with them: a commit's rows then stand in a file
with those of its neighbours, in their order.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import accumulate
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
SMALL_BYTES: Final = 4 << 20  # folders up to so large are put together
GROUP: Final = 8_192  # rows of several commits that are read together
EXPIRED: Final = "expired.json"
LATE: Final = "__late"  # of rows that operators have let through: they came with several commits
MANY: Final = 1 << 62


class TakenRows:
    """The rows of one stream that its continuous queries took; any thread may read while one adds."""

    def __init__(self, folder: Path) -> None:
        """Open the folder; after a crash call :meth:`forget_after` first."""
        self.folder = folder.absolute()
        self.folders = CommitFolders(self.folder, "taken")
        self._changing = threading.Lock()
        self._plans: dict[int, tuple[TakenPlan, Takers]] = {}
        self._commits = {one.number: one for span in self._records() for one in self._read_commits(span)}
        self._places: dict[int, tuple[CommitSpan, int]] = {}  # of commits in a folder with others; rows before theirs
        for span in self._together():
            self._places |= self._placed(span)
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

    def plans_in_memory(self) -> list[tuple[TakenPlan, Takers]]:
        """List the plans that were read or are in force, and who takes their fragments."""
        with self._changing:
            return list(self._plans.values())

    def pieces(self, commit: TakenCommit, columns: Sequence[str] | None = None) -> Iterator[tuple[int, pa.Table]]:
        """Read a commit's rows piece by piece, each with the ordinal of its first row."""
        files, span, before = self._opened(commit.number)
        at, upto = -before, commit.rows if span.first != span.last else MANY
        try:
            for file in files:
                known = set(file.schema_arrow.names)
                chosen = None if columns is None else [name for name in columns if name in known]
                for group in range(file.num_row_groups):
                    rows = file.metadata.row_group(group).num_rows
                    if -rows < at < upto:
                        yield from _within(file, group, chosen, at, upto)
                    at += rows
        except (OSError, pa.ArrowInvalid) as error:
            raise damaged(self.folders.path(span), error) from error

    def _opened(self, number: int) -> tuple[list[pq.ParquetFile], CommitSpan, int]:
        """Open the files of a commit's rows; tell whose they are, and how many rows of others stand before.

        What was opened stays readable when folders are put together or expire meanwhile.
        """
        while True:
            span, before = place = self._place(number)
            path = self.folders.path(span)
            try:
                files = [pq.ParquetFile(file) for file in sorted(path.glob("*.parquet"))]
            except (OSError, pa.ArrowInvalid) as error:
                if place == self._place(number):
                    if number not in self._commits:
                        return [], span, 0  # it expired meanwhile
                    raise damaged(path, error) from error
                continue
            if place == self._place(number):
                if not files and number in self._commits:
                    raise damaged(path, "it does not exist, but its record does")
                return files, span, before

    def _place(self, number: int) -> tuple[CommitSpan, int]:
        """Tell the folder of a commit's rows, and how many rows of others stand before them."""
        return self._places.get(number, (CommitSpan(number, number), 0))

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

    def bytes_of(self, number: int) -> int:
        """Return how many bytes a commit's rows take."""
        return self.folders.bytes_in(CommitSpan(number, number))

    def share_of_bytes(self, commit: TakenCommit) -> float:
        """Return how many bytes a commit's rows take, of a folder with others by their number."""
        span, _ = self._place(commit.number)
        try:
            return self.folders.bytes_in(span) * min(1.0, commit.rows / max(1, self.folders.rows_in(span)))
        except OSError:
            return 0.0  # it has gone meanwhile

    def add_fragments(self, plan: int, number: int, added: pa.Table) -> None:
        """Store the fragments that a plan had not met before a commit."""
        if added.num_rows:
            content = arrow_file(added)
            write_whole(self._fragments(plan, number), lambda file: file.write(content), "taken.fragments")

    def add(self, commit: TakenCommit) -> None:
        """Record a commit that is about to be made."""
        write_record(self.folder / f"{commit.number:012d}.json", asdict(commit), "taken.record")
        self._commits[commit.number] = commit

    # -- what operators have computed ----------------------------------------------------------------------------

    def write_outputs(self, queued: int, number: int, outputs: pa.Table) -> None:
        """Store what operators computed of a commit's queued rows, before the commit that answers some of them."""
        content = arrow_file(outputs)
        write_whole(self._outputs(queued, number), lambda file: file.write(content), "taken.outputs")

    def outputs(self, queued: int) -> pa.Table | None:
        """Read what operators had computed of a commit's queued rows; None: nothing that was committed."""
        numbers = self._numbers(f"outputs-{queued:012d}-", ".arrow")
        return read_arrow_file(self._outputs(queued, numbers[-1]), None) if numbers else None

    def outputs_bytes(self) -> int:
        """Return the size of what operators have computed for those who still wait."""
        size = 0
        for name in names_in(self.folder) if self.folder.is_dir() else ():
            with suppress(FileNotFoundError):  # removed meanwhile
                size += (self.folder / name).stat().st_size if name.startswith("outputs-") else 0
        return size

    def remove_outputs(self, queued: int, before: int = MANY) -> None:
        """Remove what nobody waits for any more, or what was written before a commit that wrote it anew."""
        for number in self._numbers(f"outputs-{queued:012d}-", ".arrow"):
            if number < before:
                remove(self._outputs(queued, number))

    def _outputs(self, queued: int, number: int) -> Path:
        """Name the file of what was computed of a commit's rows when another one was made."""
        return self.folder / f"outputs-{queued:012d}-{number:012d}.arrow"

    # -- what is put together ------------------------------------------------------------------------------------

    def putting_together(self, upto: int) -> Iterator[None]:
        """Put small folders of neighbours of one plan together, step by step; the commits up to a number hold."""
        while spans := self.folders.to_merge(self._alike(upto), SMALL_BYTES):
            merged = self.folders.replace(spans, self.folders.collected(spans), GROUP)
            places = self._placed(merged)
            commits = [asdict(self._commits[number]) for number in sorted(places)]
            write_record(self.folder / f"{merged.name}.json", {"commits": commits}, "taken.together")
            self._places |= places  # whoever reads finds the new folder from here on
            self.folders.delete(spans)
            for span in self._records():
                if merged.holds(span):
                    remove(self.folder / f"{span.name}.json")
            yield

    def _alike(self, upto: int) -> list[CommitSpan]:
        """List the newest folders of one plan, oldest first."""
        found: list[CommitSpan] = []
        plan: int | None = None
        for span in reversed(self.folders.spans):
            known = self._commits.get(span.last)
            if span.last > upto or known is None:
                continue
            if plan not in (None, known.plan):
                break
            plan = known.plan
            found.insert(0, span)
        return found

    def _placed(self, span: CommitSpan) -> dict[int, tuple[CommitSpan, int]]:
        """Find the rows of each commit in a folder."""
        members = sorted(number for number in self._commits.copy() if span.first <= number <= span.last)
        rows = [self._commits[number].rows for number in members]
        return {number: (span, before) for number, before in zip(members, accumulate(rows, initial=0), strict=False)}

    def _together(self) -> list[CommitSpan]:
        """List the folders that hold the rows of several commits."""
        return [span for span in self.folders.spans if span.first != span.last]

    def _records(self) -> list[CommitSpan]:
        """List the records: of a commit, or of several that were put together."""
        names = names_in(self.folder) if self.folder.is_dir() else []
        return [
            span for name in names if (span := CommitSpan.named(name.removesuffix(".json"))) and name[-5:] == ".json"
        ]

    def _read_commits(self, span: CommitSpan) -> list[TakenCommit]:
        """Read a record."""
        path = self.folder / f"{span.name}.json"
        try:
            found = read_record(path)
            return [TakenCommit(**one) for one in found.get("commits", [found])]
        except TypeError as error:
            raise damaged(path, "it is not a record of rows") from error

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
        span = self._place(number)[0]
        there = span in self.folders.spans and self.folders.rows_in(span) >= rows
        if rows and number > self._expired and (known is None or known.rows != rows or not there):
            raise damaged(self.folder / f"{number:012d}.json", "it does not exist, but a commit names its rows")

    def expire(self, numbers: Sequence[int]) -> None:
        """Delete the rows of commits; those in a folder with others go with the last of them."""
        gone = set(numbers)
        for span in self._together():
            members = {number for number in self._commits.copy() if span.first <= number <= span.last}
            gone -= set() if members <= gone else members
        if not gone:
            return
        upto = max(self._expired, *gone)
        write_record(self.folder / EXPIRED, {"upto": upto})
        self._expired = upto
        for number in gone:
            self._commits.pop(number, None)
            self._places.pop(number, None)
            self.remove_outputs(number)
        self.folders.remove([span for span in self.folders.spans if span.last in gone])
        for span in self._records():
            if self._commits.keys().isdisjoint(range(span.first, span.last + 1)):
                remove(self.folder / f"{span.name}.json")

    def expire_plans(self, current: Collection[int | None]) -> None:
        """Delete plans, but for the current ones, that no commit is of."""
        with self._changing:
            used = {one.plan for one in self._commits.values()}
            for number in set(self._numbers("plan-", ".json")) - used - set(current):
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
            of_operators = name.startswith("outputs-") and int(name[21:33]) > number
            if name.endswith(".draft") or of_operators:
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


def _within(
    file: pq.ParquetFile, group: int, columns: list[str] | None, at: int, upto: int
) -> Iterator[tuple[int, pa.Table]]:
    """Read the rows from 0 up to a number of a group that begins at a number."""
    for batch in file.iter_batches(AT_ONCE, row_groups=[group], columns=columns):
        first, last = max(0, -at), min(batch.num_rows, upto - at)
        if first < last:
            yield at + first, pa.Table.from_batches([batch.slice(first, last - first)])
        at += batch.num_rows


def numbers_of(table: pa.Table, name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Read a column of whole numbers."""
    return np.asarray(table[name].cast(pa.int64()).to_numpy(), np.int64)
