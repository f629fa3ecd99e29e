"""Words the parts of a plan for people."""

from __future__ import annotations

import re
from typing import Final

from penstock.model.duration import format_duration
from penstock.report.markup import readable
from penstock.share.explain.explanation import ConditionPlan, GroupingPlan, TreePlan

_MICROSECONDS: Final = re.compile(r"\b(\d{1,18}) us\b")


def condition_words(condition: ConditionPlan) -> str:
    """Say which rows are taken; a table is named only if the predicate does not name it."""
    where = readable(condition.where) if condition.where else "every row"
    unnamed = [table for table in condition.joins if f"{table}." not in where]
    return f"{where}, joined with {', '.join(unnamed)}" if unnamed else where


def grouping_words(grouping: GroupingPlan) -> str:
    """Say what rows are grouped by."""
    return f"by {readable(grouping.by)}" if grouping.keys else "all rows together"


def finding_words(tree: TreePlan) -> str:
    """Say how a row finds its slice, with lengths that can be read."""
    return _MICROSECONDS.sub(lambda found: format_duration(int(found[1])), tree.found_by)


def saving_words(saving: float) -> str:
    """Say how many times less work a plan is."""
    return f"{saving:,.0f}×" if saving >= 10 else f"{saving:.1f}×"
