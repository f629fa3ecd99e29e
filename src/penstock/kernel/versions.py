"""Shows the answers of all versions of a query, each window once or everything that was answered."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import pyarrow as pa

from penstock.errors import UnknownQuery, WrongType
from penstock.kernel.revisions import SortedBy, shown_answers

Version = int | Literal["all"] | None  # None: the answers as they stand
VERSION: Final = "version"
_WINDOW: Final = 2  # columns that every answer begins with: window_start and window_end


@dataclass(frozen=True, slots=True)
class ShownVersions:
    """What every version of a query has said, and what the last one looks like."""

    said: Mapping[int, list[pa.Table]]  # version → its answers as the log has them, the oldest version first
    schema: pa.Schema  # of the last version's answers
    begins_us: int  # of the last version: it answers the windows that begin then or later
    by: Mapping[int, Sequence[str]]  # version → columns that tell groups, where its answers are to be put in order
    order: Mapping[int, Sequence[SortedBy]]  # version → its ORDER BY, where its answers may have been revised
    alone: Collection[int] = ()  # versions whose answers no later one gives again: those of sessions

    def answers(self, version: Version = None, *, revisions: bool = False) -> pa.Table:
        """Show the answers as they stand, those of one version, or all with the version of each."""
        if version == "all":
            return self._all(revisions=revisions)
        if version is not None:
            return self._of(version, self._log(version), revisions=revisions)
        *earlier, last = self.said
        shown = self._of(last, self.said[last], revisions=revisions)
        kept = [(one, self._still_standing(one)) for one in earlier if self.said[one]]
        tables = [self._of(one, log, revisions=revisions) for one, log in kept if log]
        tables = [table for table in tables if table.schema.equals(shown.schema)]
        return _in_order([*tables, shown]) if tables else shown

    def _log(self, version: int) -> list[pa.Table]:
        """Return what a version has said."""
        if version not in self.said:
            known = ", ".join(map(str, self.said))
            raise UnknownQuery(f"the query has no version {version}", detail=f"its versions: {known}")
        return self.said[version]

    def _of(self, version: int, log: Sequence[pa.Table], *, revisions: bool) -> pa.Table:
        """Show the answers of one version with its own columns; of an earlier one that said nothing, only windows'."""
        last = version == max(self.said)
        schema = self.schema if last else _visible(log[0]) if log else pa.schema(list(self.schema)[:_WINDOW])
        by, order = self.by.get(version, ()), self.order.get(version, ())
        return shown_answers(log, schema, revisions=revisions, by=by, order=order)

    def _still_standing(self, version: int) -> list[pa.Table]:
        """Keep a version's answers of windows that begin before those of every later version."""
        if version in self.alone:
            return [table for table in self.said[version] if table.num_rows]
        between = [one for one in self.said if version < one < max(self.said) and one not in self.alone]
        later = [_first_start(self.said[one]) for one in between]
        limit = min([self.begins_us, *(start for start in later if start is not None)])
        kept = [table.filter(pa.array(_starts(table) < limit)) for table in self.said[version]]
        return [table for table in kept if table.num_rows]

    def _all(self, *, revisions: bool) -> pa.Table:
        """Show all answers, each with its version, also of windows that a later version answered again."""
        tables = []
        for version, log in self.said.items():
            shown = self._of(version, log, revisions=revisions)
            tables.append(shown.add_column(_WINDOW, VERSION, pa.array(np.full(shown.num_rows, version, np.int32))))
        try:
            return _in_order(tables)
        except pa.ArrowException as error:
            what = "versions of the query have columns of the same name and different types"
            raise WrongType(what, detail=str(error), hint="Ask for one at a time: version=1.") from None


def _in_order(tables: Sequence[pa.Table]) -> pa.Table:
    """Put the answers of several versions together, by window; columns that some lack are NULL there."""
    whole = pa.concat_tables(tables, promote_options="default").combine_chunks()
    order = np.argsort(whole["window_end"].cast(pa.int64()).to_numpy(), kind="stable")
    return whole.take(pa.array(order))


def _visible(table: pa.Table) -> pa.Schema:
    """Return the columns of answers that users see."""
    return pa.schema([field for field in table.schema if not field.name.startswith("#")])


def _starts(table: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Read the starts of answers' windows."""
    return np.asarray(table["window_start"].cast(pa.int64()).to_numpy(), np.int64)


def _first_start(log: Sequence[pa.Table]) -> int | None:
    """Return the first start of a window that was answered; None: none was."""
    return min((int(_starts(table).min()) for table in log if table.num_rows), default=None)
