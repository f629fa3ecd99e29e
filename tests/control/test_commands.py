"""The commands against an engine that runs, as a user types them; the engine only pretends, the request box is real."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.cli import carrying
from penstock.cli.locating import Place
from penstock.cli.status import troubles
from penstock.control.serving import Serving
from penstock.control.status import SinkStatus
from penstock.store.answers import DEFINITION, DiskAnswerLog
from penstock.store.commits import Commit, DiskCommitLog
from penstock.store.files import write_record
from penstock.store.folder import StateFolder, held
from tests.control.pretending import MINUTE, NOW, PACE, Pretended
from tests.shell import PATIENCE_S, Penstock, penstock

__all__ = ["penstock"]  # a fixture


@pytest.fixture
def engine(tmp_path: Path) -> Pretended:
    (tmp_path / "state").mkdir()
    return Pretended(tmp_path / "state" / "catalog.db")


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


# Changes.


def test_a_query_is_added_paused_resumed_and_dropped(penstock: Penstock, state: Path, engine: Pretended) -> None:
    where = ("--state", state)
    added = penstock("add", "pace", PACE, *where)
    assert (added.code, added.err) == (0, "")
    assert added.out == f"answers from {NOW} on: the stream is younger\n"
    assert penstock("pause", "pace", *where).out.startswith('query "pace" is paused')
    version = engine.catalog.version
    assert penstock("pause", "Pace", *where).out == 'query "Pace" was paused already; nothing was changed\n'
    assert engine.catalog.version == version
    assert penstock("resume", "pace", *where).out.startswith('query "pace" answers again')
    assert penstock("resume", "pace", *where).out == 'query "pace" is not paused; nothing was changed\n'
    assert penstock("pause", "nothing", *where).code == 1
    assert json.loads(penstock("drop", "pace", *where, "--json").out) == {"query": "pace"}
    assert engine.catalog.query_names() == []


def test_an_engine_that_begins_while_a_command_opens_the_folder_is_asked(
    penstock: Penstock, tmp_path: Path, engine: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_record(tmp_path / "state" / "format", {"format": 2, "id": "a"})
    engine.create_query("pace", PACE)
    with ExitStack() as running:

        @contextmanager
        def opened(place: Place) -> Iterator[StateFolder]:
            held = StateFolder(place.folder)  # of the one that was faster
            running.callback(held.release)
            serving = Serving(engine, held.path, poll_s=0.01)
            serving.start()
            running.callback(serving.stop)
            yield StateFolder(place.folder)

        monkeypatch.setattr(carrying, "opened", opened)
        done = penstock("pause", "pace", "--state", tmp_path / "state")
    assert (done.code, done.out.startswith('query "pace" is paused')) == (0, True), done
    assert done.err.splitlines()[1:] == ["an engine has begun to run on it meanwhile, and is asked"]


def test_the_policy_of_a_running_engine_is_told_and_changed(penstock: Penstock, state: Path, engine: Pretended) -> None:
    where = ("--state", state)
    assert penstock("policy", *where).out.splitlines() == [
        "answers come in the order of policy Hybrid",
        "expensive functions take their rows in the order of policy FCFS",
        "evaluations run together by technique C-LP",
    ]
    assert penstock("policy", "hnr", *where).out == "answers come in the order of policy HNR from now on\n"
    changed = penstock("policy", "--synchronize", "cs", *where).out
    assert changed == "evaluations run together by technique CS from now on\n"
    changed = penstock("policy", "--operators", "chain-flush", *where).out
    assert changed == "expensive functions take their rows in the order of policy Chain-Flush from now on\n"
    told = {"policy": "HNR", "operators": "Chain-Flush", "synchronize": "CS"}
    assert json.loads(penstock("policy", *where, "--json").out) == told
    assert (engine.policy, engine.operator_policy, engine.synchronization) == tuple(told.values())
    assert penstock("policy", "--synchronize", "HS", *where).out.startswith("evaluations run together by technique HS")
    refused = penstock("policy", "Chain", *where)
    assert refused.code != 0
    assert 'policy "Chain" orders the queues of operators' in refused.err
    unknown = penstock("policy", "HNRR", *where)
    assert 'there is no policy "HNRR"' in unknown.err
    assert engine.policy == "HNR"


def test_the_share_of_rows_that_is_sampled_is_told_and_changed(
    penstock: Penstock, state: Path, engine: Pretended
) -> None:
    where = ("--state", state)
    assert penstock("shed", "trades", *where).out == "queries that shed load take all rows of stream trades\n"
    changed = penstock("shed", "trades", "1/8", *where).out
    assert changed == "queries that shed load take 1/8 of the rows of stream trades from the next batch on\n"
    assert json.loads(penstock("shed", "trades", *where, "--json").out) == {"stream": "trades", "share": "1/8"}
    assert "queries that shed load take 1/8 of the rows" in penstock("status", *where).out
    refused = penstock("shed", "trades", "1/3", *where)
    assert refused.code != 0
    assert 'a stream cannot be sampled at "1/3"' in refused.err
    assert engine.progress.clock.sampling == 3


def test_a_query_comes_from_a_file_or_from_standard_input(
    penstock: Penstock, state: Path, engine: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("pace.sql").write_text(f"-- how many\n{PACE};\n", encoding="utf-8")
    assert penstock("add", "pace", "-f", "pace.sql", "--state", state).code == 0
    monkeypatch.setattr(sys, "stdin", io.StringIO(PACE.replace("5 MIN", "7 MIN")))
    done = penstock("add", "pace", "-", "--replace", "--state", state, "--json")
    assert json.loads(done.out)["why"] == "no row came yet"
    assert str(engine.catalog.query("pace").query.window) == "[RANGE 7 min SLIDE 1 min]"


def test_an_error_of_the_engine_is_shown_as_if_it_were_here(penstock: Penstock, state: Path) -> None:
    done = penstock("add", "q", "SELECT avg(prise) AS p FROM trades [RANGE 1 MIN SLIDE 1 MIN]", "--state", state)
    assert done.code == 1
    assert done.err.startswith('error[UnknownColumn]: stream "trades" has no column "prise"\n  SELECT avg(prise)')
    assert done.err.endswith('             ^^^^^\nhint: Did you mean "price"?\n')
    assert penstock("drop", "nothing", "--state", state).code == 1
    defect = penstock("ask", "a defect", "--state", state)
    assert defect.code == 4
    assert "error[RequestFailed]" in defect.err


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("add", "q"), 2, "give the query as SQL"),
        (("add", "q", PACE, "-f", "q.sql"), 2, "give the query as SQL"),
        (("add", "q", " "), 2, "the query is empty"),
        (("add", "q", "-f", "nowhere.sql"), 1, "cannot read nowhere.sql"),
        (("add",), 2, "Missing argument"),
        (("backfill",), 2, "Missing argument"),
        (("drop", "a", "b"), 2, "unexpected extra argument"),
    ],
)
def test_a_wrong_command_says_what_is_missing(
    penstock: Penstock, state: Path, arguments: tuple[str, ...], code: int, says: str
) -> None:
    done = penstock(*arguments, "--state", state)
    assert (done.code, says in done.err) == (code, True), done.err


# Where the state is.


def test_the_state_folder_is_the_one_that_the_project_names(penstock: Penstock, state: Path, tmp_path: Path) -> None:
    (tmp_path / "penstock.yml").write_text("state: state\nstreams: {}\n", encoding="utf-8")
    assert penstock("add", "pace", PACE).code == 0
    assert penstock("queries").out.splitlines()[0] == "trades: 1 query"
    assert penstock("drop", "pace", "--project", tmp_path).out.endswith("its answers stay\n")


def test_a_drop_names_the_file_that_brings_the_query_back(penstock: Penstock, state: Path, tmp_path: Path) -> None:
    (tmp_path / "penstock.yml").write_text("state: state\nstreams: {}\n", encoding="utf-8")
    (tmp_path / "queries").mkdir()
    (tmp_path / "queries" / "pace.sql").write_text(PACE, encoding="utf-8")
    assert penstock("add", "Pace", PACE).code == 0
    again = "The next run of the project takes the text of queries/pace.sql again: edit that file, too"
    assert again in penstock("add", "pace", PACE.replace("5 MIN", "6 MIN"), "--replace").out
    file = Path("queries", "pace.sql")
    assert penstock("drop", "Pace").out.endswith(
        f"its answers stay.\nThe next run of the project brings it back, as {file} defines it: delete that file, too\n"
    )
    assert penstock("add", "pace", PACE).code == 0
    assert json.loads(penstock("drop", "pace", "--json").out) == {"query": "pace", "file": str(file)}


def test_an_engine_that_starts_is_told_from_none(penstock: Penstock, tmp_path: Path) -> None:
    none = penstock("status", "--state", tmp_path / "state")
    assert (none.code, "One that was just started makes the folder once Spark is up" in none.err) == (4, True)
    with held(tmp_path / "state"):  # as an engine does before it writes anything
        starting = penstock("status", "--state", tmp_path / "state")
    assert (starting.code, "an engine is just starting on" in starting.err) == (4, True)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("streams: {}", "names no state folder"),
        ("state: [1", "cannot read penstock.yml"),
        ("state: nowhere", "nowhere does not exist"),
        ("state: queries", "queries is not a state folder"),
        ("- 1", "names no state folder"),
    ],
)
def test_a_project_without_state_is_an_error(
    penstock: Penstock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: str, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("queries").mkdir()
    Path("penstock.yml").write_text(settings, encoding="utf-8")
    for command in (("status",), ("queries",), ("drop", "q"), ("ask", "SELECT 1")):
        done = penstock(*command)
        assert done.code in (1, 4)
        assert says in done.err
        assert "hint: " in done.err


def test_a_script_or_an_empty_folder_names_no_state(
    penstock: Penstock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "--state FOLDER" in penstock("status", "market.sql").err
    assert "there is no penstock.yml" in penstock("status").err
    assert penstock("status", "--state", "nowhere").code == 4


# Questions.


def test_ask_names_the_window_that_it_answers(penstock: Penstock, state: Path) -> None:
    done = penstock("ask", "SELECT symbol, max(price) AS high FROM trades [RANGE 10 MIN]", "--state", state)
    assert (
        done.out
        == "window 2026-01-05T14:25:00.000000Z to 2026-01-05T14:35:00.000000Z\nsymbol  high\nA       1.5\n        NaN\n"
    )
    assert penstock("ask", "SELECT 1", "--state", state).out.startswith("no groups: ")
    found = json.loads(penstock("ask", "SELECT symbol", "--state", state, "--json").out)
    assert (len(found["rows"]), found["columns"][2]) == (2, {"name": "symbol", "type": "string"})


def test_backfill_says_how_many_windows_it_answered(penstock: Penstock, state: Path) -> None:
    done = penstock("backfill", "a", "b", "--state", state)
    assert done.out == "a: 7 windows of the past answered\nb: 7 windows of the past answered\n"
    assert json.loads(penstock("backfill", "a", "--state", state, "--json").out) == {"windows": {"a": 7}}
    accepted = penstock("backfill", "a", "--accept-changed-files", "--state", state)
    assert accepted.out == "a: 9 windows of the past answered\n"


# Status.


def test_status_shows_every_term_of_the_law_in_80_columns(penstock: Penstock, state: Path, engine: Pretended) -> None:
    penstock("add", "pace", PACE, "--state", state)
    engine.create_query("bad", PACE)
    engine.fail_query("bad", "[DIVIDE_BY_ZERO] " + "Division by zero. " * 8)
    engine.sinks.append(SinkStatus("parquet out", 3, "no space left on device", NOW - MINUTE, 4))
    done = penstock("status", "--state", state)
    assert done.code == 0, done.err
    assert max(map(len, done.out.splitlines())) <= 80
    told = " ".join(done.out.split())
    for text in (
        "state: running, process ",
        "trades: watermark 2026-01-05T14:33:00.000000Z, 2 min behind the clock",
        "1,000 ingested = 960 on time + 20 corrected + 5 late + 10 invalid + 5 duplicate (adds up)",
        "queries 2, 1 of them paused; 6 windows open",
        "12 commits; a heartbeat after 10 s without rows",
        "sink jsonl answers: has everything",
        "parquet out: 3 batches behind, fails since 2026-01-05T14:34:00Z (4 attempts): no space left on device",
        "paused queries bad: [DIVIDE_BY_ZERO] Division by zero.",
    ):
        assert text in told


def test_status_as_json_tells_the_same(penstock: Penstock, state: Path, engine: Pretended) -> None:
    penstock("add", "pace", PACE + " WITH (lifetime = '8 h')", "--state", state)
    found = json.loads(penstock("status", "--state", state, "--json").out)
    assert (found["running"], found["answers_requests"], found["folder"]) == (True, True, "state")
    (stream,) = found["streams"]
    assert stream["counts"]["ingested"] == sum(v for k, v in stream["counts"].items() if k != "ingested")
    (query,) = found["queries"]
    assert (query["state"], query["origin"], query["ends_us"]) == ("answering", "added", NOW + 480 * MINUTE)
    assert query["next_end_us"] == NOW - MINUTE


def test_a_check_ends_with_1_when_something_needs_a_person(penstock: Penstock, state: Path, engine: Pretended) -> None:
    penstock("add", "pace", PACE, "--state", state)
    assert penstock("status", "--state", state, "--check").code == 0
    penstock("pause", "pace", "--state", state)
    assert penstock("status", "--state", state, "--check").code == 0  # by hand
    penstock("resume", "pace", "--state", state)
    engine.fail_query("pace", "[OVERFLOW]")
    assert penstock("status", "--state", state, "--check").code == 1


def test_what_needs_a_person_is_named() -> None:
    sink = {"sink": "jsonl out", "failure": "no space"}
    stream = {"stream": "s", "failure": "gone", "law_holds": False, "sinks": [sink]}
    found = {"running": False, "streams": [stream], "queries": [{"query": "q", "failed": True}]}
    assert troubles(found) == [
        "no engine runs",
        "s: gone",
        "s: the counts do not add up",
        "s: jsonl out fails",
        "q is paused",
    ]


def test_status_counts_windows_of_rows_and_tells_times(penstock: Penstock, state: Path, engine: Pretended) -> None:
    engine.create_query("pace", PACE)
    engine.create_query("last", "SELECT count(*) AS n FROM trades [ROWS 5 SLIDE 5]")
    found = json.loads(penstock("status", "--state", state, "--json").out)
    (stream,) = found["streams"]
    assert (stream["queries"], len(found["queries"])) == (2, 2)
    assert (stream["watermark_us"], stream["watermark"]) == (NOW - 2 * MINUTE, "2026-01-05T14:33:00.000000Z")


def test_what_came_of_a_request_is_told_later(penstock: Penstock, state: Path, engine: Pretended) -> None:
    penstock("add", "pace", PACE, "--state", state, "--wait", "5m")
    assert penstock("status", "--state", state, "--request", "1").out.startswith(
        "request 1 was carried out: answers from"
    )
    told = json.loads(penstock("status", "--state", state, "--request", "1", "--json").out)
    assert (told["state"], told["answer"]["query"]) == ("done", "pace")
    assert "request 77 is not known" in penstock("status", "--state", state, "--request", "77").out
    assert penstock("drop", "pace", "--state", state, "--wait", "soon").code == 2


def test_queries_shows_state_next_window_and_origin(penstock: Penstock, state: Path, engine: Pretended) -> None:
    engine.create_query("pace", PACE)
    engine.create_query("mine", PACE + " WITH (lifetime = '8 h')", origin="added")
    engine.create_query("bad", PACE)
    engine.fail_query("bad", "[OVERFLOW] \x1b[2J too large")
    done = penstock("queries", "--state", state)
    assert done.out == (
        "trades: 3 queries\n"
        "  query  window                     state      next window ends\n"
        "  pace   [RANGE 5 min SLIDE 1 min]  answering  2026-01-05T14:34:00.000000Z\n"
        "  mine   [RANGE 5 min SLIDE 1 min]  answering  2026-01-05T14:34:00.000000Z\n"
        "    ends by itself at 2026-01-05T22:35:00Z\n"
        "    added by a command; penstock drop removes it\n"
        "  bad    [RANGE 5 min SLIDE 1 min]  paused\n"
        "    [OVERFLOW] \\u001b[2J too large\n"
    )
    assert [q["query"] for q in json.loads(penstock("queries", "--state", state, "--json").out)["queries"]] == [
        "pace",
        "mine",
        "bad",
    ]


# No engine runs: what the last one left.


def test_without_an_engine_status_and_queries_read_the_folder(
    penstock: Penstock, tmp_path: Path, engine: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    StateFolder(_sound(tmp_path / "state")).release()
    engine.create_query("pace", PACE, origin="added")
    engine.pause_query("pace")
    commit = Commit(
        number=4,
        batch=4,
        catalog_version=3,
        watermark_us=NOW,
        last_us=NOW,
        first_us=NOW - MINUTE,
        clock_us=NOW,
        counts=engine.progress.clock.counts,
        source="",
        next_ends={"1": NOW + MINUTE},
    )
    DiskCommitLog(tmp_path / "state" / "commits" / "trades").append(commit, pa.table({}))
    answer = pa.table({DEFINITION: [1], "window_end": [NOW]})
    DiskAnswerLog(tmp_path / "state" / "answers" / "trades").append(4, [answer])
    (tmp_path / "state" / "sinks").mkdir()
    write_record(tmp_path / "state" / "sinks" / "trades-0.json", {"delivered": 2})
    done = penstock("status", "--state", "state")
    assert done.code == 0, done.err
    assert done.out.startswith("state: no engine runs; this is what the last one left\n\ntrades: watermark 2026-01-05")
    assert "5 commits" in done.out
    assert "sink 1: 2 batches behind" in done.out
    assert "pace: paused by hand" in done.out
    assert penstock("status", "--state", "state", "--check").code == 1
    (query,) = json.loads(penstock("queries", "--state", "state", "--json").out)["queries"]
    assert (query["state"], query["origin"], query["failed"]) == ("paused", "added", False)
    assert not (tmp_path / "state" / "requests.db").exists()


def test_a_query_that_no_batch_has_seen_waits(engine: Pretended) -> None:
    engine.create_query("pace", PACE)
    engine.progress.windows.starts.clear()
    (query,) = engine.status()["queries"]
    assert (query["state"], query["next_end_us"]) == ("waiting", None)


def test_a_damaged_folder_is_a_clear_error(
    penstock: Penstock, tmp_path: Path, engine: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _sound(tmp_path / "state")
    commits = tmp_path / "state" / "commits" / "trades"
    commits.mkdir(parents=True)
    (commits / f"{0:012d}.json").write_text("rubbish")
    done = penstock("status", "--state", "state")
    assert done.code == 4
    assert "missing or damaged" in done.err


def _sound(folder: Path) -> Path:
    write_record(folder / "format", {"format": 2, "id": "a"})
    return folder


def test_status_starts_no_spark(tmp_path: Path, engine: Pretended) -> None:
    engine.create_query("pace", PACE)
    lines = (
        "import sys",
        "from penstock.cli import cli",
        f"cli(['status', '--state', {str(_sound(tmp_path / 'state'))!r}], standalone_mode=False)",
        "assert 'pyspark' not in sys.modules",
    )
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE_S)
