"""Writes the batch's job so that an expression that fails on a row harms its own queries only.

Predicates, keys, arguments and join keys of the watched queries are evaluated apart, each once a row; a failure
makes the row invisible to the query and is reported by the columns ``f<definition>_first``, ``…_last`` and
``…_rows`` of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column

from penstock.evaluate.typed import Definition
from penstock.language.binding.columns_read import is_bare, reading
from penstock.share.conditions.cell_parts import ConditionGroupMemory
from penstock.share.conditions.condition_cells import admissions
from penstock.share.layout import Layout
from penstock.share.partial_schema import failure_name
from penstock.share.plan import condition_of
from penstock.spark.job.attempt import attempt_text
from penstock.spark.job.jvm_columns import written
from penstock.spark.job.literals import quoted
from penstock.spark.job.writer import Writer
from penstock.spark.sources.computed_columns import inputs_of

NOT_COMPUTED: Final = "a column could not be computed"


def watched_with(definitions: Sequence[Definition], failed: frozenset[int]) -> frozenset[int]:
    """Add to the queries that failed all that share an expression or a join with a watched one.

    Where an attempted expression fails, it reads as NULL; whoever reads it must be watched, or would take that for
    its value.
    """
    watched = set(failed)
    while True:
        members = [d for d in definitions if d.id in watched]
        shared = {part for d in members for part in _parts(d)}
        more = {d.id for d in definitions if d.id not in watched and not shared.isdisjoint(_parts(d))}
        if not more:
            return frozenset(watched)
        watched |= more


class AttemptingWriter(Writer):
    """A writer that reads watched expressions from columns where they were attempted."""

    def __init__(self, layout: Layout, families: ConditionGroupMemory) -> None:
        """Name a column for every expression of the watched queries."""
        self.watched = [d for d in layout.plan.definitions if d.id in layout.attempts]
        self.instead = _failing_where_not_computed(layout)
        found = (t for d in self.watched for t in _texts(d))
        texts = dict.fromkeys(t for t in found if not is_bare(t) or self.guarded(t) != t)
        self.columns = {text: f"__x{i}" for i, text in enumerate(texts)}
        super().__init__(layout, families)

    def read(self, text: str) -> str:
        """Read an expression from where it was attempted."""
        return f"{self.columns[text]}.v" if text in self.columns else text

    def guarded(self, text: str) -> str:
        """Write an expression so that it fails where a column that it reads could not be computed."""
        return reading(text, self.instead) if self.instead else text

    def failed(self, text: str) -> str:
        """Tell whether an expression failed on the row."""
        return f"{self.columns[text]} IS NULL" if text in self.columns else "false"

    def fallible(self) -> list[str]:
        """List what is tried besides the watched expressions."""
        return [text for text in super().fallible() if text not in self.columns]

    def rows(self) -> list[list[Column]]:
        """Attempt every watched expression before labels and signatures."""
        attempts = [attempt_text(self.guarded(text), name) for text, name in self.columns.items()]
        return [[written("*"), *attempts], *super().rows()]

    def statistics(self) -> list[Column]:
        """Add, for every watched query, the first, last and number of rows it failed on."""
        found = super().statistics()
        for definition in self.watched:
            fails = f"{self.valid} AND ({self.failure(definition)})"
            if len(self.layout.members) > 1:  # each row once: in the first carrier
                fails = f"__g = 0 AND {fails}"
            found += [
                written(f"min(IF({fails}, __t, NULL))", failure_name(definition.id, "first")),
                written(f"max(IF({fails}, __t, NULL))", failure_name(definition.id, "last")),
                written(f"count_if({fails})", failure_name(definition.id, "rows")),
            ]
        return found

    def failure(self, definition: Definition) -> str:
        """Write when a row fails a query: a join key, else the predicate, else a key or argument of a taken row."""
        condition = condition_of(definition)
        where = condition.where
        inner = [self.failed(k) for k in _taken_texts(definition)]
        taken = f"{self.read(where)} AND ({' OR '.join(inner) or 'false'})" if where else " OR ".join(inner) or "false"
        asked = f"{self.failed(where)} OR ({taken})" if where else taken
        joins = [f"{quoted(f'__j{j.id}.{i}')} IS NULL" for j in condition.joins for i in range(len(j.stream_keys))]
        admitted = " AND ".join(admissions(condition, self.joins)) or "true"
        return " OR ".join([*joins, f"({admitted}) AND ({asked})"])


def _failing_where_not_computed(layout: Layout) -> dict[str, str]:
    """Write how a computed column is read so that whoever needs its value fails where it has none."""
    doubtful = [c.name for c in layout.doubtful if c.name != layout.time]
    return {
        name: f"IF({quoted(inputs_of(name))} IS NULL, {quoted(name)}, raise_error('{NOT_COMPUTED}'))"
        for name in doubtful
    }


def _taken_texts(definition: Definition) -> list[str]:
    """List what is computed of the rows a query takes."""
    arguments = [text for c in definition.typed.components for text in c.arguments]
    return [*definition.query.keys, *arguments]


def _parts(definition: Definition) -> set[str]:
    """List what a query's attempts may have in common with another's: expressions and joins."""
    return {t for t in _texts(definition) if not is_bare(t)} | {j.id for j in definition.query.joins}


def _texts(definition: Definition) -> list[str]:
    """List all expressions of a query that are computed of rows."""
    where = definition.typed.where
    return [*([where] if where else []), *_taken_texts(definition)]
