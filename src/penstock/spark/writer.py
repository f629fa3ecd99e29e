"""A layout in, the expressions of its one Spark job out: SQL text, few calls into the JVM for any number of queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from penstock.evaluate.components import ROWS, Component
from penstock.model.query import Join
from penstock.share.layout import Layout, Member
from penstock.share.locate import ByArithmetic, ByDivision
from penstock.share.plan import BITS_PER_WORD, Condition
from penstock.share.slices import Progression
from penstock.spark.columns import written
from penstock.spark.lift import is_bare, last_of, partial_texts
from penstock.spark.literals import longs, position_in, quoted

# The watermark and the first time too far ahead change with every batch. They are read from an array literal by a
# position that depends on the row, or the optimizer would fold them into the code, and every batch would compile.
MARKS: Final = "__marks"
WATERMARK: Final = MARKS + "[IF({t} IS NULL, 1, 0)]"
AHEAD: Final = MARKS + "[IF({t} IS NULL, 0, 1)]"
FLOOR: Final = -(1 << 62)  # before it, slices could not be counted in 64 bits


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a batch is judged by, fixed and recorded before it is processed."""

    watermark_us: int
    ahead_us: int  # first time that is too far ahead of the clock
    edges: Mapping[int, Sequence[int]] = field(default_factory=dict)  # tree → edges, for searched trees only
    revised: Sequence[tuple[int, int]] = ()  # for each of the layout's revising windows: ends after, ends from


def number_of(join: Join) -> str:
    """Name the column that numbers the table's rows of one key; NULL where no row of the table matched."""
    return quoted(f"{join.id}.#")


class Writer:
    """Writes the job's expressions as Spark SQL text: few calls into the JVM, whatever the number of queries."""

    def __init__(self, layout: Layout) -> None:
        """Choose whether a row's time is written out where it is used, or once as a column.

        Without signatures, copies and attempts there is little to write, and a job of one step is planned faster.
        """
        self.layout = layout
        self.joins = layout.plan.joins
        self.direct = layout.direct
        self.leads = layout.marks_late is not None and not layout.key_types  # keys ask whether a row is valid
        self.time = f"unix_micros(cast({quoted(layout.time)} as timestamp))"
        self.t = self.time if self.direct else "__t"
        # NULL, as good as false, without a time.
        self.is_valid = f"({self.t} < {AHEAD.format(t=self.t)} AND {self.t} > {FLOOR}L)"
        self.valid = self.is_valid if self.direct else "__valid"
        self.is_late = f"{self.t} < {WATERMARK.format(t=self.t)}"

    # -- what a row is ------------------------------------------------------------------------------------------

    def base(self) -> str:
        """Tell a row of the stream from the repetitions that joins make of it."""
        once = [f"coalesce({number_of(j)}, 0) = 0" for j in self.joins]
        return " AND ".join(once) or "true"

    def admitted(self, condition: Condition) -> str | None:
        """Write the joins' part of a condition; None when every row passes."""
        own = {j.id: j for j in condition.joins}
        parts = []
        for join in self.joins:
            mine = own.get(join.id)
            if mine is None:
                parts.append(f"coalesce({number_of(join)}, 0) = 0")
            elif mine.kind == "inner":
                parts.append(f"{number_of(join)} IS NOT NULL")
        return " AND ".join(parts) or None

    def holds(self, condition: Condition) -> str:
        """Write a whole condition; joins first, so that the predicate is asked only of admitted rows."""
        parts = [p for p in (self.admitted(condition), f"({condition.where})" if condition.where else None) if p]
        return " AND ".join(parts) or "true"

    def word(self, member: Member, word: int) -> str:
        """Write one long of a grouping's signature."""
        chosen = member.grouping.conditions[word * BITS_PER_WORD : (word + 1) * BITS_PER_WORD]
        bits = [f"IF({self.holds(c)}, {1 << i}L, 0L)" for i, c in enumerate(chosen)]
        return f"IF({self.valid}, {' | '.join(bits)}, 0L)"

    def label(self, tree: int) -> Column:
        """Write where a valid row's slice (or granule) starts."""
        locating = self.layout.locating[tree]
        if isinstance(locating, ByDivision):
            return written(self.granule(locating))
        if isinstance(locating, ByArithmetic):
            lasts = [last_of(p, self.t) for p in locating.progressions]
            last = lasts[0] if len(lasts) == 1 else f"greatest({', '.join(lasts)})"
            return written(f"IF({self.valid}, {last}, NULL)")
        place = position_in(F.col(f"__edges{tree}"), F.expr(self.t)).cast("bigint")
        return F.when(F.expr(self.valid), place)

    def granule(self, locating: ByDivision) -> str:
        """Write where a valid row's granule starts, and whether the row is late if the label tells that too."""
        late = f" + IF({self.is_late}, 1L, 0L)" if self.layout.marks_late else ""
        return f"IF({self.valid}, {last_of(locating.granule, self.t)}{late}, NULL)"

    # -- the steps of the job ------------------------------------------------------------------------------------

    def numbers(self, bounds: Bounds) -> dict[str, str]:
        """Write what changes from batch to batch, as array literals; all other columns stay the same."""
        edges = {f"__edges{tree}": longs(edges) for tree, edges in bounds.edges.items()}
        return edges if self.leads else {MARKS: self.marks(bounds)} | edges

    def marks(self, bounds: Bounds) -> str:
        """Write the watermark, the first time too far ahead, and which ends of revising windows are revised."""
        revised = [mark for pair in bounds.revised for mark in pair]
        return longs([bounds.watermark_us, max(bounds.watermark_us + 1, bounds.ahead_us), *revised])

    def leading(self, bounds: Bounds) -> str | None:
        """Write the label with a batch's numbers in it, if no other column needs them: one step less to plan."""
        locating = self.layout.locating[0] if self.leads else None
        if not isinstance(locating, ByDivision):
            return None
        return self.granule(locating).replace(MARKS, self.marks(bounds)) + " AS label"

    def rows(self) -> list[list[Column]]:
        """Write, step by step, a row's columns: time and validity, labels and signatures; none if written directly."""
        if self.direct:
            return []
        time, valid = written(self.time, "__t"), written(self.is_valid, "__valid")
        words = [
            written(self.word(m, w), f"__s{m.number}_{w}")
            for m in self.layout.members
            if m.signed
            for w in range(m.grouping.words)
        ]
        return [[written("*"), time, valid, *self.labels(), *words]]

    def labels(self) -> list[Column]:
        """Write the label of each tree; without queries, only whether the row is valid."""
        labels = [self.label(t).alias(f"__l{t}") for t in range(len(self.layout.plan.trees))]
        return labels or [written(f"IF({self.valid}, 0L, NULL)", "__l0")]

    def copies(self) -> list[Column] | None:
        """Write one copy of the row for each grouping that takes it; None for a single grouping."""
        if len(self.layout.members) < 2:
            return None
        if len(self.layout.plan.trees) < 2:
            taken = [f"IF({self.taken(m)}, {m.number}, NULL)" for m in self.layout.members]
            return [written("*"), written(f"explode(array({', '.join(taken)}))", "__g")]
        # Each copy brings its own tree's label: choosing among all labels again would cost trees × trees.
        labelled = [
            f"IF({self.taken(m)}, named_struct('__g', {m.number}, '__l', __l{m.tree}), NULL)"
            for m in self.layout.members
        ]
        labels = ", ".join(f"__l{t}" for t in range(len(self.layout.plan.trees)))
        return [written(f"* EXCEPT ({labels})"), written(f"inline(array({', '.join(labelled)}))")]

    def taken(self, member: Member) -> str:
        """Tell whether a grouping needs the row; a tree's first grouping keeps all, so that nothing goes uncounted."""
        if member.carrier:
            return "true"
        if not member.signed:
            return self.valid
        return " OR ".join(f"__s{member.number}_{w} <> 0" for w in range(member.grouping.words))

    def by(self) -> list[Column]:
        """Write what rows are grouped by: label (unless :meth:`leading` writes it), grouping, signature and keys."""
        layout, by = self.layout, []
        if not self.leads:
            label = self.labels()[0] if self.direct else F.col("__l0" if len(layout.plan.trees) < 2 else "__l")
            by.append(label.alias("label"))
        if len(layout.members) > 1:
            by.append(written("__g", "grouping"))
        for slot in range(layout.words):
            choice = [(m, f"__s{m.number}_{slot}") for m in layout.members if m.signed and slot < m.grouping.words]
            by.append(written(self.pick(choice), f"s{slot}"))
        for slot, _ in enumerate(layout.key_types):
            choice = [(m, self.key(m, m.slots.index(slot))) for m in layout.members if slot in m.slots]
            by.append(written(self.pick(choice), f"k{slot}"))
        return by

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
        """Write a key, asked only of rows that some condition takes."""
        text = member.grouping.keys[position]
        needed = self.needed(member, range(len(member.grouping.conditions)))
        return text if needed is None else f"IF({needed}, {text}, NULL)"

    def needed(self, member: Member, conditions: Sequence[int]) -> str | None:
        """Tell whether any of the conditions takes the row; None when all rows of the group are taken."""
        if not member.signed:
            return self.valid
        parts = []
        for word in range(member.grouping.words):
            mask = sum(1 << (c % BITS_PER_WORD) for c in conditions if c // BITS_PER_WORD == word)
            if mask:
                parts.append(f"(__s{member.number}_{word} & {mask}L) <> 0")
        return f"({' OR '.join(parts)})"

    # -- aggregates ----------------------------------------------------------------------------------------------

    def statistics(self) -> list[Column]:
        """Count what every batch must know of itself."""
        counted = {"rows": "count(*)", "last": f"max({self.t})"}
        once = f" AND {self.base()}" if self.joins else ""
        if self.layout.marks_late is None:
            counted |= {"first": f"min({self.t})", "late": f"count_if({self.is_late}{once})"}
            counted |= {"timely": f"count_if(NOT {self.is_late}{once})"}
        if self.layout.revising:
            counted |= {"touched": f"count_if({self.is_late})"}
            counted |= {"corrected": f"count_if({self.is_late}{once} AND ({self.revised()}))"}
        if self.joins:
            counted |= {"base": f"count_if({self.base()})"}
        return [written(text, name) for name, text in counted.items()]

    def revised(self) -> str:
        """Tell whether a final window holds the row whose answer late rows still revise: the last one that ended."""
        found = []
        for number, (window, _) in enumerate(self.layout.revising):
            after, since = (f"{MARKS}[IF({self.t} IS NULL, 0, {2 + 2 * number + i})]" for i in (0, 1))
            until = f"least({WATERMARK.format(t=self.t)}, {self.t} + {window.range_us}L)"
            end = last_of(Progression(window.slide_us, window.offset_us), until)
            found.append(f"({end} > {self.t} AND {end} > {after} AND {end} >= {since})")
        return " OR ".join(found)

    def partials(self) -> list[Column]:
        """Aggregate every component once for all groupings."""
        columns = []
        for number, component in enumerate(self.layout.components):
            if component == ROWS or component.source != component:
                continue
            assert component.argument is not None
            texts = partial_texts(component, self.guarded(component))
            columns += [written(text, f"c{number}_{part}") for part, text in enumerate(texts)]
        return columns

    def guarded(self, component: Component) -> str:
        """Write an argument so that it is computed only for rows that a user of it takes."""
        text = component.argument or ""
        if is_bare(text) or self.direct:  # of an invalid row, a failure only costs a second, careful run
            return text
        needs = []
        for member in self.layout.members:
            if component not in member.grouping.components:
                continue
            users = member.grouping.users[member.grouping.components.index(component)]
            needs.append((member, self.needed(member, users) or "true"))
        by_need: dict[str, list[str]] = {}
        for member, need in needs:
            by_need.setdefault(need, []).append(str(member.number))
        if len(by_need) == 1 and len(needs) == len(self.layout.members):
            wanted = needs[0][1]
        else:
            wanted = " OR ".join(f"(__g IN ({', '.join(who)}) AND {need})" for need, who in by_need.items())
        return f"IF({wanted}, {text}, NULL)"
