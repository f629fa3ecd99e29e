"""``penstock sim`` and ``penstock reproduce``: scenarios run and repeat, mistakes are placed, claims are listed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from penstock.cli import cli
from penstock.project.scenario import read_scenario
from penstock.project.scenario_queries import expected_work
from penstock.reproduce.figure import Size
from penstock.reproduce.papers import makers
from penstock.sim.network import Group, JoinQuery, Operator

HOUSE = Path(__file__).resolve().parents[2]
SMALL = """
seed: 3
utilization: 0.9
streams:
  packets: {lbl-pkt-4: 40}
  orders: {poisson: 30, gap: 0.02, bursts: 10}
queries:
  - {name: alert, stream: packets, count: 3, spread: 2, operators: [{cost: 1, selectivity: 0.5}, {cost: 1}]}
  - {name: total, stream: orders, slide: 5, operators: [{cost: 2}]}
policies: [FCFS, HNR, Mixed(0.01)]
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    (tmp_path / "small.yml").write_text(SMALL, encoding="utf-8")
    return tmp_path / "small.yml"


def test_a_scenario_gives_the_same_figures_twice_and_all_policies_the_same_answers(scenario: Path) -> None:
    found = [CliRunner().invoke(cli, ["sim", str(scenario), "--json"]) for _ in range(2)]
    assert [f.exit_code for f in found] == [0, 0], found[0].output
    assert found[0].output == found[1].output
    rows = json.loads(found[0].output)["policies"]
    assert [row["policy"] for row in rows] == ["FCFS", "HNR", "Mixed(0.01)"]
    assert len({row["answers"] for row in rows}) == 1


def test_a_scenario_is_shown_as_table_and_page(scenario: Path) -> None:
    done = CliRunner().invoke(cli, ["sim", str(scenario), "--html", str(scenario.with_suffix(".html"))])
    assert done.exit_code == 0, done.output
    assert "slowdown average" in done.output
    assert scenario.with_suffix(".html").read_text(encoding="utf-8").count("<svg") == 4


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("HNR", "HRN", 'there is no policy "HRN"'),
        ("poisson: 30", "poison: 30", 'stream "orders" has no setting "poison"'),
        ("cost: 2", "cost: 0", "an operator needs a cost above 0"),
        ("slide: 5, operators: [{cost: 2}]", "shared: {cost: 2}", 'query "total" needs members'),
        ("stream: orders, slide: 5, operators: [{cost: 2}]", "join: {cost: 2}", 'query "total" needs streams'),
        (
            "stream: orders, slide: 5, operators: [{cost: 2}]",
            "join: {cost: 2}, window: 1, streams: [orders, orders]",
            'query "total" must join two different streams',
        ),
        ("policies:", "metrics: [speed]\npolicies:", "speed"),
        ("policies:", "slice: 0.1\npolicies:", "a time slice needs level: preemptive"),
        ("policies:", "adapt: 5\ncalendar: true\npolicies:", "a calendar queue cannot be used while"),
        ("policies:", "polices:", 'a scenario has no setting "polices"'),
    ],
)
def test_a_mistake_in_a_scenario_is_placed(scenario: Path, old: str, new: str, words: str) -> None:
    scenario.write_text(SMALL.replace(old, new), encoding="utf-8")
    done = CliRunner().invoke(cli, ["sim", str(scenario)])
    assert done.exit_code == 1
    assert words in done.output
    assert "^" in done.output


def test_round_robin_may_take_turns_by_time_slices(scenario: Path) -> None:
    found = []
    for turn in ("", "slice: 0.00001\n", "slice: 1000\n"):
        text = SMALL.replace("policies: [FCFS, HNR, Mixed(0.01)]", "policies: [RR]") + f"level: preemptive\n{turn}"
        scenario.write_text(text, encoding="utf-8")
        done = CliRunner().invoke(cli, ["sim", str(scenario), "--json"])
        assert done.exit_code == 0, done.output
        found.append(json.loads(done.output)["policies"][0])
    assert len({row["answers"] for row in found}) == 1
    assert found[1]["slowdown_average"] < found[2]["slowdown_average"]  # short turns favour cheap queries


def test_joins_groups_classes_and_time_are_told(tmp_path: Path) -> None:
    example = HOUSE / "examples" / "policies_mixed.yml"
    done = CliRunner().invoke(cli, ["sim", str(example), "--json", "--html", str(tmp_path / "page.html")])
    assert done.exit_code == 0, done.output
    for row in json.loads(done.output)["policies"]:
        classes = row["classes"]
        assert {name: c["queries"] for name, c in classes.items()} == {"pairs": 4, "tiles": 10, "total": 1}
        assert sum(c["answers"] for c in classes.values()) == row["answers"]
        mean = sum(c["answers"] * c["response_average"] for c in classes.values()) / row["answers"]
        assert mean == pytest.approx(row["response_average"])
        assert classes["total"]["tardiness_average"] == pytest.approx(row["tardiness_average"])
        assert "tardiness_average" not in classes["pairs"]
        assert sum(part["answers"] for part in row["over_time"]) == row["answers"]
        assert max(part["memory_peak"] or 0 for part in row["over_time"]) >= row["memory_peak"]
    assert (tmp_path / "page.html").read_text(encoding="utf-8").count("<svg") == 5


def test_a_utilization_counts_joins_and_groups() -> None:
    group = Group("g", Operator(2.0, 0.4), ((Operator(1.0),), (Operator(4.0, 0.5), Operator(2.0))))
    assert expected_work(group, [10]) == pytest.approx(10 * (2 + 0.4 * (1 + 4 + 0.5 * 2)))
    join = JoinQuery("j", (Operator(1.0, 0.5),), (), Operator(3.0, 0.1), (Operator(2.0),), 4.0, (0, 1), (1.0, 0.5))
    # A tuple on the left reaches the join half the time and meets 8 others; one on the right always, and meets 2.
    left, right = 1 + 0.5 * (3 + 8 * 0.1 * 2), 3 + 2 * 0.1 * 2
    assert expected_work(join, [10, 20]) == pytest.approx(10 * left + 20 * right)
    scenario, _ = read_scenario(HOUSE / "examples" / "policies_mixed.yml")
    assert scenario is not None
    tuples = np.bincount(scenario.arrivals.stream).tolist()
    span = float(scenario.arrivals.time[-1] - scenario.arrivals.time[0])
    assert sum(expected_work(query, tuples) for query in scenario.queries) == pytest.approx(0.9 * span)


def test_a_figure_is_made_again_with_page_and_claims(tmp_path: Path) -> None:
    page, numbers = tmp_path / "b04.html", tmp_path / "b04.json"
    done = CliRunner().invoke(cli, ["reproduce", "b04", "6", "--html", str(page), "--json", str(numbers)])
    assert done.exit_code == 0, done.output
    found = json.loads(numbers.read_text(encoding="utf-8"))
    assert {c["id"]: c["verdict"] for c in found["claims"]} == {"b04-figure-6-1": "holds", "b04-figure-6-2": "holds"}
    assert [c["name"] for c in found["figures"][0]["curves"]] == ["Chain", "Greedy", "FIFO", "RR"]
    assert "<svg" in page.read_text(encoding="utf-8")


def test_all_figures_of_the_papers_are_there_in_order() -> None:
    found = list(makers("all", None, Size(100, 10)))
    numbers = {paper: [int(n) for p, n in found if p == paper and n.isdigit()] for paper in ("s07", "b04", "g06")}
    assert numbers["s07"] == [n for n in range(7, 44) if n != 35]  # 35 explains, it measures nothing
    assert numbers["b04"] == list(range(4, 21))
    assert numbers["g06"] == [5, 6, 7, 8]
    assert {("b04", "Table 1"), ("b04", "Example 2")} <= set(found)


def test_an_unknown_paper_or_figure_is_refused() -> None:
    for words in (["s08"], ["b04", "99"]):
        done = CliRunner().invoke(cli, ["reproduce", *words])
        assert done.exit_code != 0
        assert "there is no paper" in str(done.exception) or "has no figure" in str(done.exception)
