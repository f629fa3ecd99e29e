"""One whole number in, a whole scenario out: how the engine is set, which queries there are, and what is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from random import Random
from typing import Any

from penstock.model.strategy import STRATEGIES
from tests.always.combinations.expressions import (
    AGGREGATES,
    CONDITIONS,
    FAILING_AGGREGATES,
    FAILING_CONDITIONS,
    JOINED_AGGREGATES,
    JOINED_CONDITIONS,
    JOINED_KEYS,
    KEYS,
    Aggregate,
    Row,
    aggregates,
)
from tests.always.combinations.havings import havings
from tests.always.combinations.queries import SECOND, Arrangement, Join, Query, Window
from tests.always.combinations.steps import (
    DRIVER,
    EPOCH,
    JOINS,
    KINDS,
    QUARTER,
    RANGES,
    SLIDES,
    WRITES,
    Scenario,
    Setting,
    Step,
)
from tests.always.combinations.thresholds import WAYS

__all__ = ["DRIVER", "EPOCH", "QUARTER", "Scenario", "Setting", "Step", "drawn"]


def drawn(seed: int) -> Scenario:
    """Draw the scenario of a seed."""
    return _Drawing(seed).scenario()


@dataclass
class _Drawing:
    seed: int
    random: Random = field(init=False)
    setting: Setting = field(init=False)
    clock: int = EPOCH
    names: list[str] = field(default_factory=list)
    asked: list[Query] = field(default_factory=list)
    sent: list[Row] = field(default_factory=list)
    derived: Query | None = None
    number: int = 0

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.setting = self._setting()

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    # -- settings ------------------------------------------------------------------------------------------------

    def _setting(self) -> Setting:
        choice, chance = self.random.choice, self.chance
        strategy = choice(["shared paired", "shared paired", "weave", *STRATEGIES])
        durable = chance(0.85)
        max_driver_groups = 2 if chance(0.5) else DRIVER
        retain_rows = choice([0, 0, 0, 20 * SECOND, 60 * SECOND])
        return Setting(
            strategy=strategy,
            kernel=choice(["fast", "fast", "scan"]),
            max_driver_groups=max_driver_groups,
            durable=durable,
            lateness=choice([0, 2, 5]) * SECOND,
            max_ahead=15 * SECOND,
            idle=choice([0, 3, 10]) * SECOND,
            dedup=("id",) if chance(0.12) else (),
            retain_rows=retain_rows,
            roll_seconds=choice([0.0, 60.0]),
            table=chance(0.4),
            functions=chance(0.2),
            aggregation=self.seed,
            ways=tuple(way for way in WAYS if chance(0.2)),
        )

    # -- queries -------------------------------------------------------------------------------------------------

    def query(self) -> Query:
        """Draw a query over the stream."""
        choice, chance, setting = self.random.choice, self.chance, self.setting
        window = self._window()
        join: Join = choice(JOINS) if setting.table and chance(0.4) else ""
        keys = list({e.sql: e for e in self._keys(join)}.values())
        if window.kind == "apart":
            keys = [KEYS[0], *(key for key in keys if key.sql != "k")]
        fails = chance(0.12) and not setting.retain_rows and window.kind != "apart"
        found = self._aggregates([*AGGREGATES, *(JOINED_AGGREGATES * 4 if join else [])])
        where = choice([*CONDITIONS, *(JOINED_CONDITIONS * 4 if join else [])]) if chance(0.5) else None
        if fails and chance(0.5):
            where = choice(FAILING_CONDITIONS)
        elif fails:
            found = [*found[:1], choice(FAILING_AGGREGATES)]
        if where is not None and where.function and not setting.functions:
            where = None
        query = Query(
            window,
            tuple(a for a in found if not (a.ordered and join)) or (AGGREGATES[0],),
            tuple(keys),
            where,
            choice(havings("v")) if chance(0.25) else None,
            join,
            sets=choice(["ROLLUP", "CUBE", "GROUPING SETS"])
            if len(keys) == 2 and not window.of_rows and chance(0.25)
            else "",
        )
        return self._arranged(self._with_options(query))

    def _arranged(self, query: Query) -> Query:
        """Let some queries choose among the rows of their answers; drawn apart, so that all else stays the same."""
        draw = Random(f"{self.seed} {self.number} {query.sql()}")
        if query.window.kind == "apart" or not query.grouped or draw.random() < 0.65:
            return query
        limit, offset = draw.choice([None, 1, 1, 2, 3]), draw.choice([0, 0, 0, 1])
        distinct = draw.random() < 0.4 and query.revise_for is None and not query.changes
        rows = Arrangement(distinct, distinct and bool(query.keys) and draw.random() < 0.7, (), limit, offset)
        query = replace(query, rows=rows)
        unfit = ("top(", "percentile(", "var_pop(", "stddev_samp(")  # no order of its own, or rounded as one computes
        orders = [i for i, each in enumerate(query.outputs) if not each.sql.startswith(unfit)]
        chosen = draw.sample(orders, min(len(orders), draw.choice([0, 1, 1, 2])))
        order = tuple((place, draw.random() < 0.5, draw.random() < 0.5) for place in chosen)
        return replace(query, rows=replace(rows, order=order))

    def _window(self) -> Window:
        kind = self.random.choices(KINDS, [80, 7, 8, 5])[0]
        if kind in ("rows", "apart"):
            return Window(kind, self.random.choice([1, 2, 3, 5, 8]), self.random.choice([1, 2, 3, 5]))
        offset = self.random.choice([0, 0, 0, SECOND, 1_500_000, 123_456])
        length, slide = self.random.choice(RANGES) * SECOND, self.random.choice(SLIDES) * SECOND
        if kind == "start":
            length, slide, offset = max(length, slide), min(length, slide), 0
        return Window(kind, length, slide, offset % slide)

    def _keys(self, join: str) -> list[Any]:
        number = self.random.choices([0, 1, 2], [35, 40, 25])[0]
        return self.random.sample([*KEYS, *(JOINED_KEYS * 3 if join else [])], number)

    def _aggregates(self, among: Sequence[Aggregate]) -> list[Aggregate]:
        found = {a.sql: a for a in self.random.choices(among, k=self.random.choice([1, 1, 2, 3]))}.values()
        allowed = [a for a in found if self.setting.functions or not a.function]
        return allowed or [AGGREGATES[0]]

    def _with_options(self, query: Query) -> Query:
        choice, chance = self.random.choice, self.chance
        rounded = any(a.rounded for a in query.aggregates)
        if chance(0.3) and not (query.sets or query.window.of_rows or query.fails or rounded):
            query = replace(query, revise_for=choice([5, 20, 60]) * SECOND)
        elif chance(0.12) and not rounded:
            query = replace(query, changes=True)
        if chance(0.06):
            query = replace(query, lifetime=20 * SECOND)
        options = []
        if chance(0.1) and not query.window.of_rows:
            options.append(f"retain = '{choice([20, 60])} s'")
        if self.setting.retain_rows and chance(0.2) and not query.window.of_rows:
            options.append("from = 'beginning'")
        return replace(query, options=tuple(options))

    def source(self) -> Query:
        """Draw a query whose answers are a stream with the columns k, n and t."""
        by_name = {a.sql: a for a in aggregates("k", "j", "v")}
        chosen = (self.random.choice(["count(*)", "count(v)"]), self.random.choice(["sum(v)", "max(v)", "count(v)"]))
        window = Window("time", self.random.choice([2, 2, 5]) * SECOND, self.random.choice([1, 2]) * SECOND)
        found = Query(
            window,
            tuple(by_name[sql] for sql in chosen),
            (KEYS[0],),
            self.random.choice(CONDITIONS[:15]) if self.chance(0.3) else None,
            self.random.choice(havings("v")) if self.chance(0.2) else None,
            changes=self.chance(0.1),
            names=("k", "n", "t"),
        )
        arranged = self._arranged(found)
        return found if arranged.rows.bare else arranged

    def reader(self) -> Query:
        """Draw a query over that stream."""
        found = {a.sql: a for a in self.random.choices(aggregates("k", "n", "t"), k=self.random.choice([1, 2]))}
        allowed = list(found.values())
        window = self._window()
        if window.of_rows:
            window = Window("rows", window.length, window.slide)
        keys = (KEYS[0],) if self.chance(0.5) else ()
        query = Query(window, tuple(allowed), keys, stream="d")
        if self.chance(0.3):
            query = replace(query, having=self.random.choice(havings("t")))
        return replace(query, changes=self.chance(0.1) and not any(a.rounded for a in query.aggregates))

    # -- rows ----------------------------------------------------------------------------------------------------

    def rows(self) -> tuple[Row, ...]:
        """Draw a batch: most rows are near the clock; some are late, too far ahead, without a time, or sent again."""
        number = self.random.choice([0, 1, 1, 2, 3, 4, 5, 6, 8, 12])
        found: list[Row] = []
        for _ in range(number):
            again = self.sent and self.chance(0.07)
            found.append(self.random.choice(self.sent) if again else self._row())
        self.sent += found
        return tuple(found)

    def _row(self) -> Row:
        choice, chance = self.random.choice, self.chance
        far = self.random.choices(
            [self.random.randint(-20, 8), self.random.randint(-240, 59), choice([None, 60, 61, -8])], [80, 17, 3]
        )[0]
        ts = None if far is None else self.clock + far * QUARTER + choice([0, 0, 0, 0, 1, -1, 77])
        return {
            "id": None if chance(0.05) else self.random.randrange(1_000),
            "ts": ts,
            "k": choice([None, "a", "a", "b", "b", "c", "ab", "D"]),
            "j": 0 if chance(0.05) else choice([1, 1, 2, 3, None]),
            "v": None if chance(0.1) else self.random.randint(-3, 12),
            "x": choice([None, float("nan"), -0.0, 0.0, 1.5, 1.75, 2.25, -3.5, 8.0]),
            "d": None if chance(0.1) else Decimal(self.random.randint(-200, 500)).scaleb(-2),
        }

    def table_rows(self) -> tuple[Row, ...]:
        """Draw the table: some keys have no row, some several."""
        keys = self.random.choices(["a", "b", "c", "ab", "z"], k=self.random.choice([1, 3, 4, 5]))
        choice = self.random.choice
        return tuple({"k": k, "sector": choice(["x", "y", None]), "factor": choice([1, 2, 3, None])} for k in keys)

    # -- steps ---------------------------------------------------------------------------------------------------

    def scenario(self) -> Scenario:
        steps: list[Step] = []
        if self.setting.table:
            steps.append(Step("table", rows=self.table_rows()))
        steps += [self._create() for _ in range(self.random.choice([2, 3, 4, 5]))]
        if self.chance(0.3):
            self.derived = self.source()
            steps.append(Step("derive", "d", self.derived))
            steps += [self._create(self.reader()) for _ in range(self.random.choice([1, 2]))]
        for _ in range(self.random.randint(8, 15)):
            steps += self._steps()
        return Scenario(self.seed, self.setting, tuple(steps))

    def _create(self, query: Query | None = None) -> Step:
        self.number += 1
        query = query or self._twin() or self.query()
        self.names.append(f"q{self.number}")
        self.asked.append(query)
        return Step("create", self.names[-1], query)

    def _twin(self) -> Query | None:
        """Draw a query that is there already, perhaps with another window, or none."""
        if not self.asked or self.chance(0.85):
            return None
        query = self.random.choice(self.asked)
        if self.chance(0.5) and query.window.kind == "time":
            slide = self.random.choice(SLIDES) * SECOND
            query = replace(query, window=Window("time", query.window.length, slide, query.window.offset % slide))
        return query

    def _feed(self) -> Step:
        passes = self.random.choice([0, 1, 4, 8, 8, 20, 20, 40]) * QUARTER
        self.clock += passes
        return Step("feed", rows=self.rows())

    def _steps(self) -> list[Step]:
        """Draw what is done next, at the time that the clock shows then."""
        return [step if step.at != EPOCH else replace(step, at=self.clock) for step in self._next()]

    def _next(self) -> list[Step]:
        setting, name = self.setting, self.random.choice(self.names)
        kinds = {
            "feed": 10.0,
            "heartbeat": 1.5 if setting.idle else 0,
            "create": 1.5,
            "again": 0.4,
            "drop": 0.6,
            "alter": 1.0,
            "pause": 0.7,
            "resume": 1.0,
            "backfill": 0.8 if setting.retain_rows else 0,
            "ask": 1.5,
            "restart": 0.8 if setting.durable else 0,
            "die": 0.4 if setting.durable else 0,
            "arm": 0.8 if setting.durable else 0,
            "table": 0.7 if setting.table and not setting.retain_rows else 0,
            "silence": 0.1 if setting.idle else 0,
        }
        kind = self.random.choices(list(kinds), list(kinds.values()))[0]
        match kind:
            case "feed":
                return [self._feed()]
            case "heartbeat":
                return [self._wait(self.random.choice([1, 4, 12, 13, 40, 100, -9]) * QUARTER)]
            case "silence":
                parts = self.random.choice([1, 2, 3])
                return [replace(self._wait(SECOND * 3_600 * 3 // parts), at=self.clock) for _ in range(parts)]
            case "create":
                reads = self.derived is not None and self.chance(0.3)
                return [self._create(self.reader() if reads else None)]
            case "again":  # a name that was there comes back, perhaps as it was
                index = self.random.randrange(len(self.names))
                query = self.asked[index] if self.chance(0.5) or self.asked[index].stream == "d" else self.query()
                return [Step("drop", self.names[index]), Step("create", self.names[index], query)]
            case "alter":
                return [Step("alter", name, self.query())]
            case "ask":
                return [Step("ask", query=self._question())]
            case "table":
                return [Step("table", rows=self.table_rows())]
            case "restart":
                return [Step("restart", name="again" if self.chance(0.3) else "")]
            case "arm":
                moments = tuple(
                    (self.random.choice(WRITES), self.random.choice([1, 1, 2, 3]))
                    for _ in range(self.random.choice([1, 1, 2]))
                )
                return [Step("arm", moments=moments), self._feed()]
        return [Step(kind, name)]

    def _wait(self, passes: int) -> Step:
        self.clock += passes
        return Step("heartbeat")

    def _question(self) -> Query:
        """Draw a question, often one that some query answers again and again."""
        known = [q for q in self.asked if not q.window.of_rows and not q.fails]
        if known and self.chance(0.7):
            query = self.random.choice(known)
            length = max(SECOND, query.window.length // self.random.choice([1, 1, 2]))
        else:
            query, length = self.query(), self.random.choice([1, 2, 5, 10]) * SECOND
            while query.fails or query.window.of_rows:
                query = self.query()
        return replace(
            query,
            window=Window("time", length, 1),
            revise_for=None,
            changes=False,
            lifetime=None,
            options=(),
        )
