"""``penstock top`` as a user types it; the engine only pretends to run, the request box is real."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.top import SORTS, length, top_text
from penstock.control.serving import Serving
from penstock.model.byte_sizes import format_bytes
from penstock.printable import columns
from penstock.store.files import write_record
from penstock.store.folder import StateFolder
from tests.control.pretending import PACE, Pretended
from tests.shell import Penstock, penstock

__all__ = ["penstock"]  # a fixture


@pytest.fixture
def engine(tmp_path: Path) -> Pretended:
    (tmp_path / "state").mkdir()
    engine = Pretended(tmp_path / "state" / "catalog.db")
    for name in ("cheap", "middle", "the_most_expensive_query_of_all"):
        engine.create_query(name, PACE)
    return engine


@pytest.fixture
def state(tmp_path: Path, engine: Pretended, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Stand beside the state folder of an engine that runs."""
    write_record(tmp_path / "state" / "format", {"format": 2, "id": "a"})
    held = StateFolder(tmp_path / "state")
    serving = Serving(engine, held.path, poll_s=0.01)
    serving.start()
    monkeypatch.chdir(tmp_path)
    yield Path("state")
    serving.stop()
    held.release()


def test_the_table_has_a_line_a_query_the_most_expensive_first(
    penstock: Penstock, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    shown = penstock("top", "--state", state, "--once")
    assert (shown.code, shown.err) == (0, "")
    head, empty, names, *lines = shown.out.splitlines()
    assert head == "14:35:00Z  3 queries by Hybrid, none lags, 0 of work, 0 B in memory"
    assert empty == ""
    assert names.split() == [
        "query", "answers", "response", "slowdown", "tardy", "stale", "skipped", "seconds", "sent", "memory"
    ]  # fmt: skip
    assert [line.split()[0] for line in lines[:3]] == ["the_most_expensive_query_of_all", "middle", "cheap"]
    assert " ".join(lines[2].split()) == "cheap 100 900 ms 0.9 0 1.0 min 1 3.1 s 1.0 kB 1.0 MB"


def test_every_figure_sorts(penstock: Penstock, state: Path) -> None:
    for sort in SORTS:
        found = json.loads(penstock("top", "--state", state, "--once", "--json", "--sort", sort).out)
        names = [query["query"] for query in found["queries"]]
        expected = ["cheap", "middle", "the_most_expensive_query_of_all"]
        assert names == (expected if sort == "name" else expected[::-1]), sort


def test_json_is_one_line_with_all_figures_and_a_limit_holds_for_it(penstock: Penstock, state: Path) -> None:
    [line] = penstock(
        "top", "--state", state, "--once", "--json", "--limit", "1", "--sort", "tardiness"
    ).out.splitlines()
    found = json.loads(line)
    [query] = found["queries"]
    assert found["policy"] == "Hybrid"
    assert query["response"] == {"count": 3, "sum": 3, "squares": 3, "max": 3, "p50": 1.5, "p95": 2.7, "p99": 3}
    assert query["seconds"] == {"job": 3, "ingest": pytest.approx(0.3), "commit": 0.03, "answer": 6}


def test_a_limit_says_how_many_are_left_out(penstock: Penstock, state: Path) -> None:
    assert "… and 1 more: --limit 3\n" in penstock("top", "--state", state, "--once", "--limit", "2").out


def test_it_looks_again_until_it_is_interrupted(
    penstock: Penstock, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, sleep = list[float](), time.sleep

    def interrupted(seconds: float) -> None:
        if seconds != 0.5:
            return sleep(seconds)
        looks.append(seconds)
        if len(looks) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("penstock.cli.top.time.sleep", interrupted)
    shown = penstock("top", "--state", state, "--json", "--every", "500 ms")
    assert (shown.code, len(shown.out.splitlines()), looks) == (0, 3, [0.5, 0.5, 0.5])


def test_a_folder_that_nobody_uses_is_told_as_such(penstock: Penstock, tmp_path: Path) -> None:
    write_record(tmp_path / "format", {"format": 2, "id": "a"})
    refused = penstock("top", "--state", tmp_path, "--once")
    assert refused.code == 4
    assert f"no engine runs on {tmp_path}" in refused.err
    assert "penstock run" in refused.err


def test_a_wrong_period_is_refused_with_an_example(penstock: Penstock, state: Path) -> None:
    refused = penstock("top", "--state", state, "--every", "soon")
    assert refused.code == 2
    assert "write '2 s'" in refused.err


@pytest.mark.parametrize("width", [80, 100, 160])
def test_the_table_fits_the_terminal(engine: Pretended, width: int) -> None:
    engine.create_query("q" * 90, PACE)
    text = top_text(engine.metrics().as_dict(), 20, width)
    assert max(columns(line) for line in text.splitlines()) <= width


def test_names_that_begin_alike_are_told_apart_where_there_is_little_room(engine: Pretended) -> None:
    for name in ("visits_by_country", "visits_by_browser"):
        engine.create_query(name, PACE)
    names = [line.split(" ")[0] for line in top_text(engine.metrics().as_dict(), 20, 80).splitlines()]
    cut = [name for name in names if name.startswith("vis")]
    assert len(cut) == len(set(cut)) == 2
    assert [name for name in cut if "…" not in name or name[-3:] not in ("try", "ser")] == []


def test_lengths_and_sizes_take_few_letters() -> None:
    lengths = [length(seconds) for seconds in (0, 0.0001, 0.0804, 1.23, 75, 7_500, 200_000)]
    assert lengths == ["0", "<1 ms", "80 ms", "1.2 s", "1.2 min", "2.1 h", "2.3 d"]
    assert [format_bytes(number) for number in (0, 999, 1_234, 5e6, 7.25e9)] == [
        "0 B",
        "999 B",
        "1.2 kB",
        "5.0 MB",
        "7.2 GB",
    ]
