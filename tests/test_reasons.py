"""What became of rows that nobody counted, in words."""

from __future__ import annotations

from typing import Any

from penstock.cli.reasons import invalid_text, too_late_text
from penstock.cli.reporting import report_text
from penstock.model.duration import HOUR, MINUTE

NONE = {"no_time": 0, "ahead": 0, "failed": 0, "too_early": 0, "unknown": 0}
ABOUT = {**NONE, "ahead_by_us": 0, "max_ahead_us": 10 * MINUTE, "example": None}


def test_every_reason_has_its_words_and_those_without_rows_none() -> None:
    assert invalid_text(ABOUT) == ""
    assert invalid_text({**ABOUT, "no_time": 1_200}) == "1,200 without a time"
    ahead = {**ABOUT, "ahead": 2, "ahead_by_us": 2 * HOUR + 5 * MINUTE}
    assert invalid_text(ahead) == "2 ahead of the clock by up to 2 h 5 min, and max_ahead is 10 min"
    told = invalid_text({**ABOUT, "failed": 1, "too_early": 3, "unknown": 4, "example": "ts = f(`a`): [CLASS] no"})
    assert told == (
        "3 from more than 146,000 years ago; 4 counted by an earlier version, which kept no reason; "
        "1 whose time is a failed expression: ts = f(`a`): [CLASS] no"
    )


def test_queries_that_missed_most_come_first_and_not_all_are_named() -> None:
    assert too_late_text([("a", 0)]) == ""
    assert too_late_text([("b", 1), ("a", 1), ("c", 2_000)]) == "2,000 for c, 1 for a, 1 for b"
    assert too_late_text((f"q{n}", 1) for n in range(12)).endswith("and for 2 queries more: penstock queries")


def test_a_report_names_corrected_rows_and_who_missed_them() -> None:
    stream: dict[str, Any] = {
        "stream": "s", "ingested": 9, "late": 0, "corrected": 3, "invalid": 1, "queries": 2, "answers": 4,
        "invalid_reasons": {**ABOUT, "no_time": 1}, "invalid_kept": "state/invalid/s", "too_late": {"counts": 3},
        "open_windows": 0, "empty_folder": None, "waiting": 0, "reports": [], "paused": [],
    }  # fmt: skip
    assert report_text({"seconds": 1.0, "streams": [stream]}).splitlines() == [
        "s: 9 rows (0 late, 3 corrected, 1 invalid) through 2 queries, 4 answers in 1.0 s",
        "  invalid: 1 without a time; kept in state/invalid/s",
        "  too late for windows already final: 3 for counts",
    ]
