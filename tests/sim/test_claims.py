"""What the papers on scheduling state is shown: every exact statement by tests, every figure by ``reproduce``.

A list of the statements can be named by PENSTOCK_CLAIMS: sections ``## S07: …`` of lines ``- Exact §3: …`` and
``- Figures 4–12: …``; then it is compared with what is here.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from penstock.reproduce.figure import Size
from penstock.reproduce.papers import makers

HOUSE = Path(__file__).resolve().parents[2]
LIST = os.environ.get("PENSTOCK_CLAIMS", "")

# (paper, place) of every exact statement, and the tests that show it.
EXACT = {
    ("S07", "§3.1.4 Example 1"): ("test_example_1_of_two_queries_and_three_tuples",),
    ("S07", "Eq. 3.1, 3.4, 3.6, 3.7, 3.8, 3.9, 4.11, 4.12, 4.15"): (
        "test_a_priority_is_what_the_paper_says",
        "test_the_priority_defining_tree_stops_when_the_joint_priority_falls",
        "test_fas_between_response_and_freshness_is_equation_4_15_and_hr_at_zero",
        "test_with_selectivity_one_everywhere_rates_order_as_srpt",
    ),
    ("S07", "§3.3.2"): ("test_pruning_finds_what_the_full_scan_finds",),
    ("B04", "§2.2 Example 1"): ("test_example_1_of_queue_sizes",),
    ("B04", "§5.3 Example 2"): (
        "test_example_2_tuples_that_come_just_too_fast",
        "test_example_2_tuples_that_come_in_a_burst",
    ),
    ("B04", "§3"): (
        "test_the_lower_envelope_leads_from_one_steepest_point_to_the_next",
        "test_slopes_of_the_lower_envelope_never_rise",
        "test_chain_is_within_one_unit_a_query_of_every_clairvoyant_schedule_at_every_time",
        "test_chain_flush_needs_one_unit_more_than_the_best_that_meets_all_deadlines",
    ),
    ("G06", "§4.3 (Q1..Q7, s = 1 min)"): (
        "test_sub_groups_cost_what_the_paper_says",
        "test_conservative_scheduling_costs_358_in_half_an_hour",
        "test_the_five_choices_cost_what_the_paper_says_and_hybrid_takes_the_least",
    ),
    ("G06", "§3"): (
        "test_deadlines_are_kept_as_in_figure_3",
        "test_algorithm_1_runs_one_task_at_a_time_the_earliest_deadline_first",
        "test_algorithm_2_joins_tasks_of_a_group_with_the_same_deadline",
        "test_algorithm_3_also_joins_what_is_due_now",
        "test_ties_go_to_the_higher_priority_then_to_the_first_named",
    ),
    ("G06", "§2.2"): (
        "test_one_synopsis_answers_all_shorter_windows",
        "test_an_average_needs_no_more_than_sum_and_count",
        "test_the_maximum_over_two_disjoint_predicates_comes_from_their_own_partials",
    ),
}
FIGURES = {"S07": [*range(7, 35), *range(36, 44)], "B04": [*range(4, 21)], "G06": [5, 6, 7, 8]}


def test_every_exact_statement_has_tests() -> None:
    text = "".join(file.read_text(encoding="utf-8") for file in (HOUSE / "tests").rglob("test_*.py"))
    defined = set(re.findall(r"^def (test_\w+)\(", text, re.MULTILINE))
    assert [name for names in EXACT.values() for name in names if name not in defined] == []


def test_every_figure_is_made_again() -> None:
    found = {(paper.upper(), name) for paper, name in makers("all", None, Size(100, 10))}
    assert [(p, n) for p, numbers in FIGURES.items() for n in numbers if (p, str(n)) not in found] == []


def statements() -> list[tuple[str, str]]:
    """List (paper, text) of every line of the list about these three papers."""
    paper, found = "", list[tuple[str, str]]()
    for line in Path(LIST).read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            paper = line[3:].partition(":")[0]
        elif line.startswith("- ") and paper in FIGURES:
            found.append((paper, line[2:]))
        elif line.startswith("  ") and found and paper in FIGURES:
            found[-1] = (paper, f"{found[-1][1]} {line.strip()}")
    return found


def numbers(text: str) -> set[int]:
    """Collect the figures that a statement names: ``Figures 14–16``, ``Figures 27, 28``, ``Figure 7``."""
    found = set[int]()
    for group in re.findall(r"Figures? ((?:\d+(?:–\d+)?(?:, )?)+)", text):
        for part in re.findall(r"\d+(?:–\d+)?", group):
            first, _, last = part.partition("–")
            found |= set(range(int(first), int(last or first) + 1))
    return found


@pytest.mark.skipif(not LIST, reason="PENSTOCK_CLAIMS names no list of statements")
def test_no_statement_of_the_list_is_left_out() -> None:
    left_out = []
    for paper, text in statements():
        if text.startswith(("Exact", "§")):
            known = [place for p, place in EXACT if p == paper]
            left_out += [] if any(text.removeprefix("Exact ").startswith(place) for place in known) else [(paper, text)]
        elif not numbers(text):
            left_out.append((paper, text))
        left_out += [
            (paper, f"Figure {n}") for n in numbers(text) - set(FIGURES[paper]) if not text.startswith("Exact")
        ]
    assert left_out == []
