"""Writes the expressions of a layout's one Spark job as SQL text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from penstock.evaluate.components.component import Component, Written
from penstock.evaluate.components.numbers import ROWS
from penstock.evaluate.typed import Condition
from penstock.kernel.signing import LONE
from penstock.language.binding.columns_read import is_bare
from penstock.share.conditions.cell_parts import ConditionGroupMemory
from penstock.share.conditions.cells import Cells
from penstock.share.conditions.condition_cells import ATTEMPTED, admissions, is_lone, number_of, tell_apart
from penstock.share.layout import Layout, Member
from penstock.share.locate import ByArithmetic, ByDivision, BySearch
from penstock.share.partial_schema import (
    BASE_COUNT,
    CELL,
    CORRECTED_COUNT,
    DOUBTED,
    FIRST_TIME,
    GROUPING,
    LABEL,
    LAST_TIME,
    LATE_COUNT,
    ROW_COUNT,
    SHED_COUNT,
    SIGNED_COUNT,
    TOUCHED_COUNT,
    component_name,
    key_name,
    tried_name,
)
from penstock.share.slices import Progression
from penstock.spark.job.attempt import attempt_text
from penstock.spark.job.cell_numbers import CellNumbers
from penstock.spark.job.jvm_columns import written
from penstock.spark.job.literals import longs, position_in, quoted
from penstock.spark.job.many_trees import many_trees
from penstock.spark.job.row_texts import last_of
from penstock.spark.sources.computed_columns import inputs_of
from penstock.store.invalid import AHEAD as AHEAD_LABEL
from penstock.store.invalid import FAILED, FLOOR, TOO_EARLY

# The watermark and the first time too far ahead change with every batch. They are read from an array literal by a
# position that depends on the row, or the optimizer would fold them into the code, and every batch would compile.
MARKS: Final = "__marks"
WATERMARK: Final = MARKS + "[IF({t} IS NULL, 1, 0)]"
AHEAD: Final = MARKS + "[IF({t} IS NULL, 0, 1)]"


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a batch is judged by, fixed and recorded before it is processed."""

    watermark_us: int
    ahead_us: int  # first time that is too far ahead of the clock
    edges: Mapping[int, Sequence[int]] = field(default_factory=dict)  # tree → edges, for searched trees only
    revised: Sequence[tuple[int, int, int]] = ()  # for each of the layout's revising windows: ends after, from, by
    clock_us: int = 0  # the reading that rows are ahead of


class Writer:
    """Writes the job's expressions as Spark SQL text: few calls into the JVM, whatever the number of queries."""

    may_be_direct: ClassVar = True

    def __init__(self, layout: Layout, families: ConditionGroupMemory) -> None:
        """Choose whether a row's time is written out where it is used, or once as a column.

        Without signatures, copies and attempts there is little to write, and a job of one step is planned faster.
        """
        self.layout = layout
        self.joins = layout.plan.joins
        self.direct = layout.direct and self.may_be_direct
        self.many = many_trees(layout)
        self.leads = (
            self.direct and layout.marks_late is not None and not layout.key_types
        )  # keys ask whether a row is valid
        self.time = f"unix_micros(cast({quoted(layout.time)} as timestamp))"
        self.t = self.time if self.direct else "__t"
        # NULL, as good as false, without a time.
        self.is_valid = f"({self.t} < {AHEAD.format(t=self.t)} AND {self.t} > {FLOOR}L)"
        self.valid = self.is_valid if self.direct else "__valid"
        self.is_late = f"{self.t} < {WATERMARK.format(t=self.t)}"
        self.cells = self.told_apart(families)
        self.numbering = CellNumbers(self.cells, self.attribute)
        self.signed = any(m.signed for m in layout.members)
        self.copied = any(len(parts) > 1 for parts in self.cells.parts)
        attempts = self.numbering.attempts
        texts = [] if self.direct else self.fallible()
        self.tried = {text: attempts.get(text, f"__y{i}") for i, text in enumerate(texts)}

    @property
    def shape(self) -> tuple[object, ...]:
        """Return what generated code depends on: a plan of the same shape runs the code of the one before."""
        layout = self.layout
        located = tuple(isinstance(way, BySearch) or way for way in layout.locating)
        groupings = tuple((m.tree, m.grouping.keys, m.slots, m.carrier, m.signed) for m in layout.members)
        lone = tuple(m.grouping.conditions for m in layout.members if is_lone(m))
        rest = layout.time, layout.key_types, layout.components, layout.revising, layout.attempts, self.joins
        return self.numbering.shape, located, groupings, lone, tuple(self.tried), rest

    def told_apart(self, families: ConditionGroupMemory) -> Cells:
        """Divide rows into cells."""
        return tell_apart(self.layout, families)

    # -- what a row is ------------------------------------------------------------------------------------------

    def base(self) -> str:
        """Tell a row of the stream from the repetitions that joins make of it."""
        once = [f"coalesce({number_of(j)}, 0) = 0" for j in self.joins]
        return " AND ".join(once) or "true"

    def read(self, text: str) -> str:
        """Write where the value of an expression is read: itself."""
        return text

    def guarded(self, text: str) -> str:
        """Write an expression so that it fails where a column that it reads could not be computed; here: as it is."""
        return text

    def attribute(self, text: str) -> str:
        """Write where an attribute's value is read; a marked one is a whole predicate that was attempted before."""
        return self.read(text.removeprefix(ATTEMPTED)) if text.startswith(ATTEMPTED) else text

    def fallible(self) -> list[str]:
        """List the keys and arguments that may fail: they are tried, and a failure counts only if a query has it."""
        texts = [text for m in self.layout.members for text in self.texts(m)]
        failing = frozenset().union(*{d.typed.fallible for d in self.layout.plan.definitions})
        return [text for text in dict.fromkeys(texts) if text in failing and not is_bare(text)]

    def texts(self, member: Member) -> list[str]:
        """List what is computed of the rows of a grouping."""
        arguments = [text for c in member.grouping.components for text in c.arguments]
        return [*member.grouping.keys, *arguments]

    def value(self, text: str) -> str:
        """Write the value of a key or argument, from where it was tried if it may fail."""
        return f"{self.tried[text]}.v" if text in self.tried else self.read(text)

    def number(self, member: Member, part: int) -> str:
        """Write a row's number in a part of a grouping, negative where no condition takes it."""
        if not member.signed:
            return "0L" if member.carrier else f"IF({self.valid}, 0L, -1L)"
        if is_lone(member):
            told = f"IF({self.valid} AND {self.holds(member.grouping.conditions[0])}, {LONE}L, -1L)"
        else:
            told = f"IF({self.valid}, {self.numbering.text(member.number, part)}, -1L)"
        return f"greatest({told}, 0L)" if member.carrier and part == 0 else told

    def holds(self, condition: Condition) -> str:
        """Write a whole condition; joins first, so that the predicate is asked only of admitted rows."""
        where = [f"({self.read(condition.where)})"] if condition.where else []
        return " AND ".join([*admissions(condition, self.joins), *where]) or "true"

    def columns_of(self, member: Member) -> list[str]:
        """Name the columns of a row's numbers in the parts of a grouping; the only one of all is the cell itself."""
        parts = max(1, len(self.cells.parts[member.number]))
        if parts == len(self.layout.members) == 1:
            return ["__c"]
        return [f"__c{member.number}_{part}" for part in range(parts)]

    def cell_texts(self) -> dict[str, str]:
        """Write a row's number in every part of every grouping, by the names of their columns."""
        found = {}
        for member in self.layout.members:
            for part, name in enumerate(self.columns_of(member)):
                found[name] = self.number(member, part)
        return found

    def label(self, tree: int, name: str) -> Column:
        """Write where a valid row's slice (or granule) starts."""
        locating = self.layout.locating[tree]
        if isinstance(locating, ByDivision):
            return written(self.granule(locating), name)
        if isinstance(locating, ByArithmetic):
            lasts = [last_of(p, self.t) for p in locating.progressions]
            last = lasts[0] if len(lasts) == 1 else f"greatest({', '.join(lasts)})"
            return written(f"IF({self.valid}, {last}, {self.unplaced()})", name)
        return _searched(tree, self.t, self.valid, self.unplaced(), name)

    def granule(self, locating: ByDivision) -> str:
        """Write where a valid row's granule starts, and whether the row is late if the label tells that too."""
        late = f" + IF({self.is_late}, 1L, 0L)" if self.layout.marks_late else ""
        return f"IF({self.valid}, {last_of(locating.granule, self.t)}{late}, {self.unplaced()})"

    def unplaced(self) -> str:
        """Write the label of a row that is not valid: it tells why."""
        time_inputs = [quoted(inputs_of(c.name)) for c in self.layout.doubtful if c.name == self.layout.time]
        without = f"IF({time_inputs[0]} IS NULL, NULL, {FAILED}L)" if time_inputs else "NULL"
        return f"IF({self.t} IS NULL, {without}, IF({self.t} > {FLOOR}L, {AHEAD_LABEL}L, {TOO_EARLY}L))"

    # -- the steps of the job ------------------------------------------------------------------------------------

    def numbers(self, bounds: Bounds) -> dict[str, str]:
        """Write what changes from batch to batch, as array literals; all other columns stay the same."""
        edges = {f"__edges{tree}": longs(edges) for tree, edges in bounds.edges.items()}
        return edges if self.leads else {MARKS: self.marks(bounds)} | edges

    def marks(self, bounds: Bounds) -> str:
        """Write the watermark, the first time too far ahead, and which ends of revising windows are revised."""
        revised = [mark for marks in bounds.revised for mark in marks]
        return longs([bounds.watermark_us, max(bounds.watermark_us + 1, bounds.ahead_us), *revised])

    def leading(self, bounds: Bounds) -> str | None:
        """Write the label with a batch's numbers in it, if no other column needs them: one step less to plan."""
        locating = self.layout.locating[0] if self.leads else None
        if not isinstance(locating, ByDivision):
            return None
        return self.granule(locating).replace(MARKS, self.marks(bounds)) + " AS label"

    def rows(self) -> list[list[Column]]:
        """Write a row's columns step by step: what may fail; time, labels, places; cells. None if written directly."""
        if self.direct:
            return []
        failing = {**self.tried, **self.numbering.attempts}
        tried = [attempt_text(text, name) for text, name in failing.items()]
        time, valid = written(self.time, "__t"), written(self.is_valid, "__valid")
        placed = [written("*"), time, valid, *self.labels(), *self.numbering.columns()]
        steps = [[written("*"), *tried], placed] if tried else [placed]
        if self.signed and self.many is None:
            heads = self.numbering.heads()
            steps += [[written("*"), *heads]] if heads else []
            steps += self.cell_step()
        return steps

    def cell_step(self) -> list[list[Column]]:
        """Write the step that tells a row's number in every part of every grouping."""
        return [[written("*"), *(written(told, name) for name, told in self.cell_texts().items())]]

    def labels(self) -> list[Column]:
        """Write the label of each tree; without queries, only whether the row is valid."""
        if self.many is not None:
            return self.many.columns()
        labels = [self.label(t, f"__l{t}") for t in range(len(self.layout.plan.trees))]
        return labels or [written(f"IF({self.valid}, 0L, {self.unplaced()})", "__l0")]

    def placed(self, tree: int) -> str:
        """Write where a row's label in a tree is read."""
        return f"__l{tree}" if self.many is None else self.many.label(self.t, str(tree))

    def copies(self) -> list[Column] | None:
        """Write one copy of the row for each part of each grouping; None for a single one.

        A grouping's number stands above a part's in one long. Among several trees each copy brings its own tree's
        label: choosing among all labels again would cost trees × trees.
        """
        members = self.layout.members
        if self.many is not None:
            return self.many.copies([self.number(m, 0) for m in members])
        numbers = [(m, name if self.signed else self.number(m, 0)) for m in members for name in self.columns_of(m)]
        if len(numbers) < 2:
            return None
        if len(members) < 2:
            listed = self._copied(numbers)
            return [written("*"), written(f"explode({listed})", "__c")]
        labels = range(len(self.layout.plan.trees))
        inlined = [
            (m, f"named_struct('__g', {m.number}, '__c', {number}, '__l', __l{m.tree if len(labels) > 1 else 0})")
            for m, number in numbers
        ]
        dropped = ", ".join(f"__l{t}" for t in labels)
        return [written(f"* EXCEPT ({dropped})"), written(f"inline({self._copied(inlined)})")]

    def _copied(self, copies: Sequence[tuple[Member, str]]) -> str:
        """List the copies of a row; of one that is shed, those alone that count it or that exact queries ask for."""
        every = f"array({', '.join(text for _, text in copies)})"
        asked = [text for m, text in copies if m.carrier or not (self.layout.samples and m.sheds)]
        return every if len(asked) == len(copies) else f"IF({self.layout.shed}, array({', '.join(asked)}), {every})"

    def by(self) -> list[Column]:
        """Write what rows are grouped by: label (unless :meth:`leading` writes it), grouping, cell and keys."""
        layout, by = self.layout, []
        if not self.leads:
            by.append(self.label(0, LABEL) if self.direct else written(self.place(), LABEL))
        if len(layout.members) > 1:
            by.append(written("cast(__g as int)", GROUPING))
        if self.signed:
            by.append(written("__c", CELL))
        for slot, _ in enumerate(layout.key_types):
            choice = [(m, self.key(m, m.slots.index(slot))) for m in layout.members if slot in m.slots]
            by.append(written(self.pick(choice), key_name(slot)))
        return by

    def place(self) -> str:
        """Write where a copy's label is read."""
        if self.many is not None:
            return f"IF({self.valid}, {self.many.label(self.t, '__g')}, {self.unplaced()})"
        return "__l0" if len(self.layout.members) < 2 else "__l"

    def pick(self, choices: Sequence[tuple[Member, str]]) -> str:
        """Choose an expression by the row's grouping; the only one needs no choice."""
        if len(self.layout.members) < 2:
            return choices[0][1]
        by_text: dict[str, list[str]] = {}
        for member, text in choices:
            by_text.setdefault(text, []).append(str(member.number))
        if len(by_text) == 1 and len(choices) == len(self.layout.members):
            return choices[0][1]
        cases = [f"WHEN __g IN ({', '.join(numbers)}) THEN {text}" for text, numbers in by_text.items()]
        return f"CASE {' '.join(cases)} END"

    def key(self, member: Member, position: int) -> str:
        """Write a key, asked only of rows that some condition may take."""
        needed = "__c > 0" if member.signed else self.valid
        return f"IF({needed}, {self.value(member.grouping.keys[position])}, NULL)"

    # -- aggregates ----------------------------------------------------------------------------------------------

    def statistics(self) -> list[Column]:
        """Count what every batch must know of itself."""
        counted = {ROW_COUNT: "count(*)", LAST_TIME: f"max({self.t})"}
        once = f" AND {self.base()}" if self.joins else ""
        if self.layout.marks_late is None:
            counted |= {FIRST_TIME: f"min({self.t})", LATE_COUNT: f"count_if({self.is_late}{once})"}
        if self.layout.marks_late is None and (self.layout.revising or self.joins or self.copied):
            counted |= {TOUCHED_COUNT: f"count_if({self.is_late})"}  # late rows as queries have them, repeated by joins
        if self.layout.revising:
            counted |= {CORRECTED_COUNT: f"count_if({self.is_late}{once} AND ({self.revised()}))"}
        if self.layout.samples:
            counted |= {SHED_COUNT: f"count_if({self.valid} AND {self.layout.shed}{once})"}
            counted |= {SIGNED_COUNT: f"sum({self.signed_row()})"}
        if self.joins:
            counted |= {BASE_COUNT: f"count_if({self.base()})"}
        counted |= {
            tried_name(i): f"count_if({self.valid} AND {name} IS NULL)" for i, name in enumerate(self.tried.values())
        }
        if doubted := [f"{quoted(inputs_of(name))} IS NOT NULL" for name in sorted(self.layout.unwatched)]:
            counted |= {DOUBTED: f"count_if({self.valid} AND ({' OR '.join(doubted)}))"}
        return [written(text, name) for name, text in counted.items()]

    def signed_row(self) -> str:
        """Write the sign of a row that a sample keeps, once however often joins repeat it."""
        return f"IF({self.base()}, {self.layout.sign}, 0L)" if self.joins else self.layout.sign

    def revised(self) -> str:
        """Tell whether a final window holds the row whose answer late rows still revise: the last one that ended."""
        found = []
        for number, (window, _) in enumerate(self.layout.revising):
            after, since, by = (f"{MARKS}[IF({self.t} IS NULL, 0, {2 + 3 * number + i})]" for i in range(3))
            until = f"least({WATERMARK.format(t=self.t)}, {self.t} + {window.length}L, {by})"
            end = last_of(Progression(window.slide, window.offset), until)
            found.append(f"({end} > {self.t} AND {end} > {after} AND {end} >= {since})")
        return " OR ".join(found)

    def masked(self, component: Component) -> Written:
        """Let a state take the rows of its own groupings only; copies for others would make it bytes for nothing."""
        users = [m.number for m in self.layout.members if component in m.grouping.components]
        if not (component.is_state and component.ignores_null) or len(users) == len(self.layout.members):
            return self.value
        listed = ", ".join(map(str, users))
        return lambda text: f"CASE WHEN __g IN ({listed}) THEN {self.value(text)} END"

    def partials(self) -> list[Column]:
        """Aggregate every component once for all groupings."""
        columns = []
        for number, component in enumerate(self.layout.components):
            if component == ROWS or component.source != component:
                continue
            texts = component.lift(self.masked(component), self.t)
            columns += [written(text, component_name(number, part)) for part, text in enumerate(texts)]
        return columns


@lru_cache(maxsize=256)
def _searched(tree: int, time: str, valid: str, unplaced: str, name: str) -> Column:
    """Write where a valid row stands among the edges of a searched tree."""
    place = position_in(F.col(f"__edges{tree}"), F.expr(time)).cast("bigint")
    return F.when(F.expr(valid), place).otherwise(F.expr(unplaced)).alias(name)
