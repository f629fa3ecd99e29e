"""Two engines and eight command-line writers on one folder at once: each is served exactly once, or refused clearly."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from penstock.engine import Engine
from tests.always.extremes.commands import Ran, penstock
from tests.always.extremes.fields import expected, judge, prepare, session, write_files, wrong
from tests.always.extremes.trial import Trial

WRITERS = 8
FILES = 40
QUERY = "SELECT count(*) AS n FROM s [RANGE {range} s SLIDE 5 s]"


def run(trial: Trial, alone: int = 4) -> None:
    """Try a second engine, writers against one that runs, and writers against a folder that nobody has open."""
    files, state = trial.folder / "files", trial.folder / "state"
    write_files(files, range(FILES))
    spark = session("800m")
    with Engine(state, spark=spark) as engine:
        prepare(engine, files)
        trial.refused(
            "a second engine is refused with who has the folder",
            lambda: Engine(state, spark=spark),
            "another engine uses",
            "process",
        )
        second = penstock(trial.folder, "run", str(_script(trial.folder)), "--once", "--state", str(state))
        trial.claim("penstock run ends with 4", second.code == 4 and "another engine uses" in second.err, second)
        before = _changes(state)
        engine.start()
        with ThreadPoolExecutor(WRITERS) as pool, trial.timed("commands"):
            ran = [one for each in pool.map(lambda n: _write(trial.folder, state, n), range(WRITERS)) for one in each]
        engine.stop()
        _judge_writers(trial, ran, before, state)
        names = sorted(d.name for d in engine.catalog.definitions("s"))
        engine.process_available(flush=True)
        judge(trial, "the queries that were left alone answer as the model", wrong(engine, expected(FILES)))
    with Engine(state, spark=spark) as engine:
        found = sorted(d.name for d in engine.catalog.definitions("s"))
        trial.claim("the catalog opens again with the same queries", found == names, (found, names))
    with ThreadPoolExecutor(alone) as pool, trial.timed("commands_alone"):
        adding = [("add", f"alone{n}", QUERY.format(range=10 + n), "--state", str(state)) for n in range(alone)]
        ran = list(pool.map(lambda arguments: penstock(trial.folder, *arguments), adding))
    with Engine(state, spark=spark) as engine:
        found = sorted(d.name for d in engine.catalog.definitions("s") if d.name.startswith("alone"))
    carried = sorted(one.arguments[1] for one in ran if one.code == 0)
    trial.measure("alone", Counter("carried out" if one.code == 0 else f"refused {one.code}" for one in ran))
    trial.claim("of writers without an engine, those that were told so are in, and no others", found == carried, found)
    trial.claim("they are refused clearly", all(one.plain for one in ran), [str(o) for o in ran if not o.plain][:1])
    told = [one for one in ran if one.code != 0 and "error[" not in one.err]
    trial.claim("whoever is refused is told why", not told, [str(one) for one in told][:1])


def _script(folder: Path) -> Path:
    path = folder / "other.sql"
    path.write_text("CREATE STREAM t (ts TIMESTAMP) USING csv OPTIONS (path = '/nowhere') WATERMARK FOR ts;")
    return path


def _write(folder: Path, state: Path, writer: int) -> list[Ran]:
    """Give commands one after the other: some about a query of one's own, some about one that all want."""
    own, at = f"own{writer}", ("--state", str(state))
    commands = [
        ("add", own, QUERY.format(range=10 + writer), *at),
        ("add", "wanted", QUERY.format(range=30 + writer), *at),
        ("pause", own, *at),
        ("status", "--json", *at),
        ("resume", own, *at),
        ("ask", "SELECT count(*) AS n FROM s [RANGE 5 s]", "--json", *at),
        ("drop", "wanted", *at),
        *([("drop", own, *at)] if writer % 2 else []),
    ]
    return [penstock(folder, *arguments) for arguments in commands]


def _judge_writers(trial: Trial, ran: list[Ran], before: int, state: Path) -> None:
    """Hold what the commands were told against what the catalog says."""
    done = Counter(f"{one.arguments[0]} {'done' if one.code == 0 else one.code}" for one in ran)
    trial.measure("commands_in_all", len(ran))
    trial.measure("commands_by_outcome", dict(sorted(done.items())))
    told = Counter(f"{o.arguments[0]}: {o.err.splitlines()[0]}" for o in ran if o.code != 0 and o.err)
    trial.measure("refusals", dict(told.most_common()))
    odd = [str(one) for one in ran if not one.plain or (one.code != 0 and "error[" not in one.err)]
    trial.claim("no command prints a stack trace; each that is refused says why", not odd, odd[:2])
    words = {"add": "create", "drop": "drop", "pause": "pause", "resume": "resume"}
    changes = [one.arguments for one in ran if one.code == 0 and one.arguments[0] in words]
    with sqlite3.connect(f"file:{state / 'catalog.db'}?mode=ro", uri=True) as catalog:
        noted = catalog.execute("SELECT op, name FROM changes WHERE version > ?", (before,)).fetchall()
    found = Counter((op, name) for op, name in noted)
    wanted = Counter((words[arguments[0]], arguments[1]) for arguments in changes)
    unsure = Counter((words[o.arguments[0]], o.arguments[1]) for o in ran if "unknown whether" in o.err)
    trial.claim("every change that was acknowledged is in the catalog", not wanted - found, wanted - found)
    trial.claim("there is no other, but of those told to be unsure", not found - wanted - unsure, found - wanted)
    states = [json.loads(one.out) for one in ran if one.arguments[0] == "status" and one.code == 0]
    trial.claim("every status says that the engine runs", all(one["running"] for one in states), states[:1])


def _changes(state: Path) -> int:
    with sqlite3.connect(f"file:{state / 'catalog.db'}?mode=ro", uri=True) as catalog:
        return int(catalog.execute("SELECT max(version) FROM changes").fetchone()[0])
