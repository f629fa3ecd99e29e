"""Moves the partials and answers of groupings that outgrow the driver to the executors.

The executors run the driver's kernel (`kernel/synopsis.py`, `kernel/answering.py`), in one task for each bucket of
keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.evaluate.finishing import Finisher
from penstock.evaluate.typed import Definition
from penstock.kernel.pending import Pending
from penstock.kernel.synopsis import Kernel
from penstock.language.binding.functions import AGGREGATES
from penstock.language.options import says_changes
from penstock.share.grouping_rollup import from_record, to_record
from penstock.share.layout import Layout, lay_out
from penstock.share.partial_schema import GROUPING, has_groupings
from penstock.share.plan import ONE_TREE, Strategy, plan_queries
from penstock.spark.answers.executor_state import AnswerBuckets, Answered, Collecting, answer_buckets
from penstock.spark.session.own_session import made_in
from penstock.spark.session.pools import EVALUATION, in_pool
from penstock.store.answer_files import AnswerFile, AnswerPart, LargeTables, Span
from penstock.store.buckets import GroupingName
from penstock.store.commits import Commit, CommitLog, Counts
from penstock.store.executor_state import ExecutorFiles, ExecutorStateFolder
from penstock.store.files import remove
from penstock.stream.past_rows import Places
from penstock.stream.snapshot import CommittedCatalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Edges = Mapping[str, Sequence[int]]  # of searched trees


@dataclass(slots=True)
class ExecutorState:
    """What the executors keep and answer for one stream."""

    session: SparkSession
    store: ExecutorStateFolder
    answers: Path  # where answers are written
    kernel: Kernel
    strategy: Strategy
    time: str  # the stream's column of event time
    catalog: CommittedCatalog
    _listed: dict[int, bool] = field(default_factory=dict)  # by definition: whether Arrow computes its outputs

    @property
    def groupings(self) -> frozenset[GroupingName]:
        """Name the groupings whose partials are here."""
        return self.store.groupings

    def may_have(self, definitions: Sequence[Definition]) -> bool:
        """Tell whether some queries can be answered here, bucket by bucket.

        Subtotals of grouping sets are made of several buckets, and so is the order of a window's groups; revisions and
        changes need what was answered before, workers have no Spark to ask for expressions that only it computes, and
        users' aggregates stay in the driver.
        """
        plain = all(not d.query.sets and not d.typed.revise_us and not says_changes(d.query) for d in definitions)
        plain = plain and not any(d.query.arranges_rows for d in definitions)
        ours = all(a.function in AGGREGATES for d in definitions for a in d.query.aggregates)
        return plain and ours and all(map(self._is_listed, definitions))

    def _is_listed(self, definition: Definition) -> bool:
        """Tell whether Arrow computes a query's outputs and HAVING."""
        if definition.id not in self._listed:
            self._listed[definition.id] = Finisher(definition.typed).in_arrow
        return self._listed[definition.id]

    def order_of(self, definition: Definition) -> list[str]:
        """Name the outputs by which answers of several buckets are put in order: the keys that are shown."""
        if not any(keys == definition.query.keys for _, keys in self.groupings):
            return []
        shown = {output.expression: output.name for output in reversed(definition.query.outputs)}
        return [shown[f"`k{i}`"] for i in range(len(definition.query.keys)) if f"`k{i}`" in shown]

    def orders(self, numbers: Mapping[int, int], read: Callable[[int], Definition | None]) -> dict[int, list[str]]:
        """Name them for several definitions, given by any key; ``read`` finds a definition by its number."""
        each = {key: read(number) for key, number in numbers.items()} if self.groupings else {}
        return {key: self.order_of(one) for key, one in each.items() if one is not None}

    # -- partials ------------------------------------------------------------------------------------------------

    def collecting(self, layout: Layout, number: int) -> Collecting | None:
        """Prepare for the files of a commit; None: nothing of it is spread."""
        if not layout.spread:
            return None
        return Collecting(self.store.folder, number, self.store.buckets)

    def entry(self, number: int, layout: Layout, collected: Collecting, edges: Edges) -> ExecutorFiles:
        """Say what the files of a commit were made by."""
        return ExecutorFiles(
            number,
            layout.plan.version,
            tuple(collected.files),
            attempts=tuple(sorted(layout.attempts)),
            edges=edges,
            feeding=to_record(layout.feeding),
            trees=layout.plan.woven,
            layout=layout,
        )

    def begin(self, grouping: GroupingName, commits: CommitLog) -> bool:
        """Take over a grouping with all that is stored of it, commit by commit; False: something of it cannot be."""
        entries: list[ExecutorFiles] = []
        for commit, partials in commits.replay():
            if partials is None:
                continue
            if commit.kind == "backfill":  # its partials stand for those of others, lane by lane
                return False
            entries += self._taken_over(grouping, commit, partials)
        self.store.begin(grouping, entries)
        return True

    def _taken_over(self, grouping: GroupingName, commit: Commit, partials: pa.Table) -> Iterator[ExecutorFiles]:
        """Write the partials of one commit by bucket."""
        laid_out = self._laid_out(commit.catalog_version, commit.feeding, commit.trees)
        layout = replace(laid_out, attempts=frozenset(commit.attempts))
        layout = replace(layout, spread=frozenset([grouping]))
        fed = [(m, _name(layout, m.tree, f.grouping.keys)) for m in layout.members for f in m.feeds]
        feeding = [member.number for member, name in fed if name == grouping]
        if feeding and has_groupings(partials):
            partials = partials.filter(pc.is_in(partials[GROUPING], pa.array(feeding, pa.int32())))
        if not feeding or not partials.num_rows:  # of a batch without rows for this grouping there is no file
            return
        self.store.folder.mkdir(parents=True, exist_ok=True)
        collected = Collecting(self.store.folder, commit.number, self.store.buckets)
        collected.run(made_in(self.session, partials.replace_schema_metadata(None)), layout, None)
        yield replace(self.entry(commit.number, layout, collected, commit.edges), high=commit.highest)

    def _laid_out(self, version: int, feeding: Mapping[str, Any], trees: Mapping[str, str]) -> Layout:
        """Lay out the plan of a catalog version as a commit had it; ``trees`` are those that were woven."""
        commit = Commit(0, 0, version, None, None, None, 0, Counts(), "")  # of a commit, only its version is asked for
        definitions = self.catalog.at(commit).definitions
        woven = {d.id: trees.get(str(d.id), ONE_TREE) for d in definitions} if trees else None
        plan = plan_queries(definitions, self.strategy, version, None, woven)
        return lay_out(plan, self.time, from_record(feeding))

    # -- answers -------------------------------------------------------------------------------------------------

    def answer(self, due: Sequence[Pending], layout: Layout, number: int) -> Answered:
        """Answer due windows; their answers are in files that hold once the answer log names them."""
        starts = [one.ends.first_us - one.definition.query.window.length for one in due]
        entries = tuple(e for e in self._entries() if e.high is not None and e.high >= min(starts))
        plain = replace(layout, spread=frozenset())
        folder = self.store.folder
        self.answers.mkdir(parents=True, exist_ok=True)
        task = AnswerBuckets(entries, plain, tuple(due), self.kernel, folder, self.answers, number)
        with in_pool(self.session, EVALUATION):
            return answer_buckets(self.session, task, self.store.buckets)

    def taken_back(self, parts: Sequence[AnswerPart]) -> list[pa.Table]:
        """Read answers that no log will name, and remove their files."""
        tables = list(LargeTables(AnswerFile(self.answers / "asked", Span(0, 0, -1), tuple(parts))))
        for name in {part.file for part in parts}:
            remove(self.answers / name)
        return tables

    def _entries(self) -> list[ExecutorFiles]:
        """Return the entries, laid out; those read back are laid out once."""
        known: dict[str, Layout] = {}
        for place, entry in enumerate(self.store.entries):
            if entry.layout is None:
                made_by = entry.catalog_version, entry.feeding, entry.trees
                key = str(made_by)
                if key not in known:
                    known[key] = self._laid_out(*made_by)
                layout = replace(known[key], attempts=frozenset(entry.attempts))
                self.store.entries[place] = replace(entry, layout=layout)
        return self.store.entries


def open_executor_state(
    session: SparkSession, places: Places, kernel: Kernel, strategy: Strategy, time: str, catalog: CommittedCatalog
) -> ExecutorState | None:
    """Open what the executors keep of a stream; None without a state folder, which they and the driver share."""
    if places.spread is None or places.answers is None:
        return None
    store, answers = ExecutorStateFolder(places.spread), places.answers.absolute()
    return ExecutorState(session, store, answers, kernel, strategy, time, catalog)


def _name(layout: Layout, tree: int, keys: tuple[str, ...]) -> GroupingName:
    """Name a grouping of a layout."""
    return layout.plan.trees[tree].space, keys
