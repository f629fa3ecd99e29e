"""Implements ``penstock capacity``, which tells from a trace at which load a project would fall behind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isinf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from penstock.cli.arguments import Until, json_option, paragraphs, project_argument, read_until
from penstock.cli.locating import find_state, state_option
from penstock.cli.moments import about, clock_time, span
from penstock.cli.printing import say, say_json
from penstock.cli.reporting import columns_text
from penstock.errors import PenstockError
from penstock.model.byte_sizes import format_bytes
from penstock.model.counts import counted
from penstock.printable import shown

if TYPE_CHECKING:
    from penstock.control.capacity import LoadGrowth, MeasuredLoad

SHOWN: Final = 5  # queries
TIMES: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*x?", re.IGNORECASE)
RUNS_OUT: Final = {
    "cores": "all cores would be used all the time",
    "batches": "a stream's batches, one after the other, would take all the time",
    "answers": "answering, one group after the other, would take all the time",
    "functions": "expensive functions would take all the time of their workers",
    "nothing": "nothing would run out at a million times the rows",
}


def read_times(ctx: click.Context, param: click.Parameter, value: str) -> float:
    """Read how many times: ``2x``, ``1.5`` or ``10 x``."""
    found = TIMES.fullmatch(value.strip())
    if found is None or float(found[1]) <= 0:
        raise click.BadParameter(f"'{value}' is no factor; write for example 2x", ctx, param)
    return float(found[1])


@dataclass(frozen=True, slots=True)
class CapacityReport:
    """What a trace tells, now and at the load that was asked for."""

    state: Path
    load: MeasuredLoad
    since_us: int
    asked: LoadGrowth
    calibrated: bool
    queries: list[tuple[str, int, float]]  # name, definition, seconds


@click.command(short_help="Tell at which load a project would fall behind.")
@project_argument
@state_option
@click.option("--rows", default="2x", show_default=True, callback=read_times, help="So many times the rows.")
@click.option("--queries", default="1x", show_default=True, callback=read_times, help="So many times the queries.")
@click.option("--keys", default="1x", show_default=True, callback=read_times, help="So many times the groups.")
@click.option("--since", callback=read_until, metavar="WHEN", help="What ran since then: '10 min' ago, or a time.")
@json_option
def capacity(
    project: Path, state: Path | None, rows: float, queries: float, keys: float, since: Until | None, as_json: bool
) -> None:
    """Tell from the trace of PROJECT's engine at how many times the rows it falls behind, and what more would need.

    PROJECT is a project folder (default: the current one) or a state folder. The newest run of the engine is taken, but
    for its first batches. It needs no running engine, and starts no Spark. What it assumes is printed with it.

    \b
    Examples:
      penstock capacity
      penstock capacity --rows 10x --queries 3x
      penstock capacity --state state --keys 100x --json
    """
    from penstock.control.capacity import LoadGrowth

    folder = project if (project / "format").is_file() else find_state(project, state).folder
    found = _report(folder, LoadGrowth(rows, queries, keys), since)
    if as_json:
        say_json(_as_dict(found), indent=2)
    else:
        say(_as_text(found))


def _report(state: Path, asked: LoadGrowth, since: Until | None) -> CapacityReport:
    """Read the trace of a state folder, and measure the load that it tells of."""
    from penstock.cli.replaying import instant_of
    from penstock.control.capacity import measured_load, seconds_by_query
    from penstock.control.reading import read_catalog
    from penstock.store.batch_trace import read_batches
    from penstock.store.operator_trace import read_operators
    from penstock.store.rates import calibrated_rates
    from penstock.store.trace_files import read_trace
    from penstock.stream.machine_speed import stored_rates

    since_us = instant_of(since)
    every = read_batches(state, since_us)
    try:
        windows = read_trace(state, since_us).windows
    except PenstockError:  # queries without a window answer none
        windows = ()
    steps = read_operators(state, since_us).steps
    load, batches = measured_load(every, windows, stored_rates(), steps)
    spent = seconds_by_query(batches, every, windows, steps)
    names: dict[int, str] = {}
    try:
        catalog = read_catalog(state)
        names = {number: catalog.name_of(number) for number in spent}
    except (PenstockError, KeyError):  # forgotten since
        pass
    dearest = sorted(spent, key=lambda number: (-spent[number], number))
    queries = [(names.get(number, f"#{number}"), number, spent[number]) for number in dearest]
    return CapacityReport(state, load, batches[0].began_us, asked, calibrated_rates() is not None, queries)


def _assumed(found: CapacityReport) -> list[str]:
    """Say what the figures rest on."""
    load = found.load
    usual = "as calibrated" if found.calibrated else "usual, as nothing was calibrated here: penstock calibrate"
    told = "by batches of different sizes" if load.told_by == "batches" else f"by the rates of this machine ({usual})"
    functions = ["each of more queries calls expensive functions of its own, which take as long for a row as now"]
    return [
        "as many batches for the same time of the stream, each with more rows; their keys and times as now",
        f"what a batch costs however few its rows is told {told}",
        "rows fall into groups at random, so twice the rows make fewer than twice the partials",
        "more queries are like those of now: they share the pass over rows, not partials or answers",
        *(functions if load.functions.at(1) else ()),
        "more keys are answered for as much each as those of now",
        "processor time is of the engine and its Spark on this machine; elapsed time is with other programs beside it",
        "memory is what the accounts list; Python, Java and the batch at work are beside it",
    ]


def _as_dict(found: CapacityReport) -> dict[str, Any]:
    """Give programs all of it."""
    from penstock.control.capacity import LoadGrowth

    load, asked = found.load, found.asked
    at, limit = load.falls_behind_at()
    total = sum(seconds for *_, seconds in found.queries)
    return {
        "state": str(found.state),
        "measured": {
            "since_us": found.since_us,
            "batches": load.batches,
            "rows": load.rows,
            "stream_seconds": load.stream_s,
            "cores": load.cores,
            "told_by": load.told_by,
        },
        "falls_behind_at": {"rows": None if isinf(at) else at, "limit": limit},
        "now": _at(load, LoadGrowth()),
        "asked": {"rows": asked.rows, "queries": asked.queries, "keys": asked.keys},
        "then": _at(load, asked),
        "queries": [
            {"query": name, "definition": number, "seconds": seconds, "share": seconds / total if total else 0.0}
            for name, number, seconds in found.queries
        ],
        "assumptions": _assumed(found),
    }


def _at(load: MeasuredLoad, growth: LoadGrowth) -> dict[str, Any]:
    """Tell what a load takes."""
    return {
        "processor_seconds": load.processor_s(growth),
        "uses": load.uses(growth),
        "cores_needed": load.cores_needed(growth),
        "memory_bytes": round(load.memory_bytes(growth)),
        "keeps_up": max(load.uses(growth).values()) < 1,
    }


def _as_text(found: CapacityReport) -> str:
    """Word all of it."""
    from penstock.control.capacity import LoadGrowth

    load, asked = found.load, found.asked
    of = f"{counted(load.batches, 'batch', 'batches')}, {counted(load.rows, 'row')}"
    stream = about(round(load.stream_s * 1e6))
    head = f"{shown(str(found.state))}: {of}, {stream} of the stream, from {clock_time(found.since_us)} on"
    at, limit = load.falls_behind_at()
    if isinf(at):
        says = RUNS_OUT[limit]
    else:
        times = f"{at:,.0f}" if at >= 100 else f"{at:.2g}"
        says = f"falls behind at about {times} times the rows: {RUNS_OUT[limit]}"
        says = f"{says[0].upper()}{says[1:]}" if at >= 1 else f"IT IS FALLING BEHIND: {RUNS_OUT[limit]}"
    told = f"{asked.rows:g}x rows, {asked.queries:g}x queries, {asked.keys:g}x keys"
    table = columns_text(("", "now", told), list(_rows(load, LoadGrowth(), asked)))
    parts = [
        head,
        says,
        table,
        _queries_text(found),
        "It assumes:\n" + "\n".join(f"  {one}" for one in _assumed(found)),
    ]
    return paragraphs([part for part in parts if part])


def _rows(load: MeasuredLoad, now: LoadGrowth, then: LoadGrowth) -> Iterator[tuple[str, str, str]]:
    """Write what both loads take, a line each."""
    hour = 3_600 / load.stream_s
    functions = f"expensive functions, of the time of {counted(load.workers, 'worker')}"
    lines: dict[str, Callable[[LoadGrowth], str]] = {
        "processor time for an hour of the stream": lambda one: span(load.processor_s(one) * hour),
        f"of {counted(load.cores, 'core')} in use": lambda one: f"{load.uses(one)['cores']:.2%}",
        "batches, of the time": lambda one: f"{load.uses(one)['batches']:.2%}",
        "answering, of the time": lambda one: f"{load.uses(one)['answers']:.2%}",
        **({functions: lambda one: f"{load.uses(one)['functions']:.2%}"} if load.functions.at(1) else {}),
        "cores needed, four fifths busy": lambda one: f"{load.cores_needed(one):.2g}",
        "driver memory held": lambda one: format_bytes(load.memory_bytes(one)),
    }
    for name, written in lines.items():
        yield name, written(now), written(then)


def _queries_text(found: CapacityReport) -> str:
    """Print who costs most."""
    total = sum(seconds for *_, seconds in found.queries)
    if not total:
        return ""
    rows = [(shown(name), span(seconds), f"{seconds / total:.0%}") for name, _, seconds in found.queries[:SHOWN]]
    return columns_text(("most expensive", "its share", "of all"), rows)
