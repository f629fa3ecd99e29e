"""Plans and readers of HTML for the tests of reports."""

from __future__ import annotations

from html.parser import HTMLParser

from penstock.model.duration import MINUTE, SECOND
from penstock.model.window import Window
from penstock.share.explain.cells import AttributePlan, PartPlan, PredicatesPlan
from penstock.share.explain.explanation import (
    ConditionPlan,
    Explanation,
    GroupingPlan,
    JoinPlan,
    OperationCounts,
    QueryPlan,
    StreamPlan,
    TreePlan,
)
from penstock.share.slices import SliceManager

VOID = {"meta", "br", "hr", "img", "input", "link"}
WINDOWS = (Window(12 * MINUTE, 5 * MINUTE), Window(10 * MINUTE, 2 * MINUTE), Window(MINUTE, MINUTE, 7 * SECOND))


class Page(HTMLParser):
    """Reads a page and remembers what is open, every tag with its attributes, and the text by element."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.unbalanced: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.open[-1] if self.open else "", data))

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def text(self) -> str:
        return " ".join(text for tag, text in self.texts if tag != "style")


def explanation(
    queries: int = 12, *, name: str = "q", condition: str = "`volume` > {i}", conditions: int = 3, trees: int = 1
) -> Explanation:
    """Make a plan of so many queries, spread over conditions and two groupings."""
    plans = tuple(_tree(f"t{t}", queries // trees, name, condition, conditions) for t in range(trees))
    join = JoinPlan("listing#1f0c9b", "listing", "inner", ("`symbol`",))
    return Explanation(
        (StreamPlan("trades", "shared paired", 1000.0, False, (join,), plans, OperationCounts(2000.0, 12000.0)),)
    )


def _predicates(text: str, queries: list[str]) -> PredicatesPlan:
    """Tell how the conditions of a grouping are told apart."""
    searched = AttributePlan("`volume` * `price`", 3, False, True, tuple(queries))
    opaque = AttributePlan(text, 0, True, False, tuple(queries[:1]))
    return PredicatesPlan((searched, opaque), (PartPlan((searched.text, text), 3, 8, 6),), 24)


def _tree(tree: str, queries: int, name: str, condition: str, conditions: int) -> TreePlan:
    asked = [QueryPlan(f"{name}{i}", WINDOWS[i % len(WINDOWS)]) for i in range(queries)]
    by_condition = [tuple(asked[c::conditions]) for c in range(conditions)]
    texts = [condition.replace("{i}", str(i)) for i in range(conditions)]
    made = [ConditionPlan(text, members, text, ()) for text, members in zip(texts, by_condition, strict=True)]
    half = max(1, conditions // 2)
    groupings = [
        GroupingPlan((), ("count(*)",), tuple(made[:half]), _predicates(texts[0], [q.name for q in asked])),
        GroupingPlan(("`listing#1f0c9b.sector`",), ("count(*)", "max(`price`)"), tuple(made[half:])),
    ]
    rate = SliceManager(WINDOWS, "paired").edge_rate(SECOND)
    kept = tuple(g for g in groupings if g.conditions)
    return TreePlan(tree, "paired", WINDOWS, rate, "arithmetic over 4 progressions", kept)
