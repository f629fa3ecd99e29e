"""``penstock sim --trace`` prints what ran beside what would have, and says what is wrong where it cannot."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock.cli import cli
from penstock.schedule.recorded import RecordedWindows
from penstock.schedule.recorded_operators import RecordedOperatorStep, RecordedQueueAnswer
from penstock.store.operator_trace import OPERATORS, operator_step_row, queue_answer_row
from penstock.store.trace_files import TraceWriter, answered_row
from tests.shell import Penstock, penstock

__all__ = ["penstock"]  # a fixture

ONE = RecordedWindows(1, 0, "trades", "FCFS", 0, 4_000_000, 0, (7,), 1, 10, 10, 0, 9_000_000, 1.0, 4.0, 4.0)
ALERT = replace(ONE, group=1, began_us=4_000_000, ended_us=5_000_000, item=1, queries=(8,), expected_s=1.0, spent_s=1.0)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "format").write_text("a state folder has one", encoding="utf-8")
    return tmp_path / "state"


def record(state: Path, *windows: RecordedWindows) -> None:
    writer = TraceWriter(state / "trace", 1)
    writer.append([answered_row(one) for one in windows])
    writer.close()


def sim(*words: object) -> Result:
    return CliRunner().invoke(cli, ["sim", *map(str, words)])


def test_live_and_replayed_stand_side_by_side(state: Path) -> None:
    record(state, ONE, replace(ALERT, stream="\x1b[31mtrades"))
    done = sim("--trace", state, "--policy", "HNR, srpt")
    assert done.exit_code == 0, done.output
    lines = [line.split() for line in done.output.splitlines()]
    assert [line[:3] for line in lines if line and line[0] in ("live:", "FCFS", "HNR", "SRPT")] == [
        ["live:", "FCFS", "4.5"],
        ["FCFS", "4.5", "4"],
        ["HNR", "3", "1"],
        ["SRPT", "3", "1"],
    ]
    assert "2 windows in 2 groups" in done.output
    assert "too few windows for a 95th percentile" in done.output
    assert "unknown" in done.output
    assert "\x1b" not in done.output


def test_programs_get_everything(state: Path) -> None:
    record(state, ONE, ALERT)
    done = sim("--trace", state, "--policy", "HNR", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert found["ran"] == "FCFS"
    assert found["agreement"] == {"mean": 0.0, "p95": None}
    assert [one["policy"] for one in found["policies"]] == ["FCFS", "HNR"]
    assert found["live"]["response"] == {"mean": 4.5, "p50": 4.0, "p95": None, "maximum": 5.0}
    assert found["queries"][1]["mean_response"] == {"live": 5.0, "FCFS": 5.0, "HNR": 1.0}
    assert found["live"]["kept"] == 1.0


def test_several_policies_that_ran_are_compared_with_none(state: Path) -> None:
    record(state, ONE, replace(ALERT, policy="HNR"))
    done = sim("--trace", state)
    assert done.exit_code == 0, done.output
    assert "several policies ran" in done.output
    assert json.loads(sim("--trace", state, "--json").output)["ran"] is None


def test_a_torn_file_is_named(state: Path) -> None:
    record(state, ONE, ALERT)
    (state / "trace" / "9.arrows").write_bytes(b"torn")
    assert "skipped what is torn: 9.arrows" in sim("--trace", state).output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--policy", "Chain"), "orders the queues of operators"),
        (("--policy", "HRN"), 'there is no policy "HRN"'),
        (("--since", "soon"), "write '10 min' or 2026-01-05T15:00:00"),
        (("--since", "2026-01-05"), "tells nothing of that time"),
        (("--html", "page.html"), "--html needs a scenario"),
    ],
)
def test_what_cannot_be_is_refused(penstock: Penstock, state: Path, words: tuple[str, ...], said: str) -> None:
    record(state, ONE, ALERT)
    done = penstock("sim", "--trace", state, *words)
    assert done.code != 0
    assert said in done.err
    assert "Traceback" not in done.err


def test_without_a_trace_it_says_how_to_get_one(penstock: Penstock, state: Path, tmp_path: Path) -> None:
    done = penstock("sim", "--trace", state)
    assert done.code != 0
    assert "has no trace of what ran" in done.err
    assert "trace_bytes" in done.err
    assert "name a scenario, or a state folder with --trace" in sim().output
    (tmp_path / "scenario.yml").write_text("seed: 1", encoding="utf-8")
    assert "need --trace" in sim(tmp_path / "scenario.yml", "--policy", "HNR").output


def test_a_project_names_its_state_folder(state: Path, tmp_path: Path) -> None:
    record(state, ONE, ALERT)
    (tmp_path / "penstock.yml").write_text("state: state\n", encoding="utf-8")
    assert "2 windows in 2 groups" in sim("--trace", tmp_path).output


STEP = RecordedOperatorStep(
    *(1, "trades", "FCFS", 0, 0, 0, 4_000_000, (7,), (10,), (9_000_000,), (1.0,)),
    *(0, "score(price)", 10, 5, 1_000, 1_000, 4.0),
)
CHEAP = replace(STEP, began_us=4_000_000, ended_us=5_000_000, queries=(8,), operator="\x1b[31mrisk(price)", seconds=1.0)
DONE = RecordedQueueAnswer(1, "trades", 0, 0, 4_000_000, (7,), (5,), (9_000_000,), (1.0,))


def record_operators(state: Path) -> None:
    writer = TraceWriter(state / "trace", 1, form=OPERATORS)
    writer.append([operator_step_row(one) for one in (STEP, CHEAP)])
    writer.append([queue_answer_row(one) for one in (DONE, replace(DONE, queries=(8,), ended_us=5_000_000))])
    writer.close()


def test_expensive_functions_are_replayed_too_by_themselves_or_beside_windows(state: Path) -> None:
    record_operators(state)
    alone = sim("--trace", state, "--policy", "HNR,Chain")
    assert alone.exit_code == 0, alone.output
    assert "2 steps of expensive functions over 20 rows" in alone.output
    lines = [line.split() for line in alone.output.splitlines()]
    assert [line[:3] for line in lines if line and line[0] in ("live:", "FCFS", "HNR", "Chain")] == [
        ["live:", "FCFS", "4.5"],
        ["FCFS", "4.5", "4"],
        ["HNR", "3", "1"],
        ["Chain", "3", "1"],
    ]
    assert "\x1b" not in alone.output
    found = json.loads(sim("--trace", state, "--policy", "HNR", "--json").output)["operators"]
    assert (found["ran"], found["steps"], found["agreement"]["mean"]) == ("FCFS", 2, 0.0)
    assert found["queries"][1]["mean_response"] == {"live": 5.0, "FCFS": 5.0, "HNR": 1.0}
    record(state, ONE, ALERT)
    both = json.loads(sim("--trace", state, "--policy", "HNR,EDF,Chain", "--json").output)
    assert [one["policy"] for one in both["policies"]] == ["FCFS", "HNR", "EDF"]
    assert [one["policy"] for one in both["operators"]["policies"]] == ["FCFS", "HNR", "EDF", "Chain"]


def test_a_policy_that_nobody_can_run_by_is_refused_beside_functions(state: Path) -> None:
    record(state, ONE, ALERT)
    assert "orders the queues of operators" in str(sim("--trace", state, "--policy", "Chain").exception)
    record_operators(state)
    assert "knows the future" in str(sim("--trace", state, "--policy", "HNR-O").exception)
    assert 'no policy "Nonsense"' in str(sim("--trace", state, "--policy", "Nonsense").exception)
