"""Shows an engine's counts and plan in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.report.markup import details, escaped, table
from penstock.report.page import explain_page
from penstock.report.ticks import instant_text
from penstock.share.explain.explanation import Explanation


@dataclass(frozen=True, slots=True)
class StreamRow:
    """What came and went in one stream."""

    name: str
    queries: int
    rows: int = 0
    late: int = 0
    invalid: int = 0
    answers: int = 0
    watermark_us: int | None = None

    @property
    def cells(self) -> tuple[str, ...]:
        """Write the row for people."""
        numbers = (self.queries, self.rows, self.late, self.invalid, self.answers)
        watermark = "none yet" if self.watermark_us is None else instant_text(self.watermark_us)
        return (self.name, *(f"{number:,}" for number in numbers), watermark)


def engine_summary(rows: Sequence[StreamRow], explanation: Explanation) -> str:
    """Show streams as a table, and the picture of who shares what folded under it."""
    heads = ("stream", "queries", "rows", "late", "invalid", "answers", "watermark")
    summary = table(heads, [row.cells for row in rows], numbers=range(1, 6))
    if not explanation.queries:
        return summary
    # A frame of its own: the page's style must not reach the notebook's, nor the other way round.
    frame = f'<iframe srcdoc="{escaped(explain_page(explanation))}" style="width:100%;height:640px;border:0"></iframe>'
    return summary + details("Who shares what", frame)
