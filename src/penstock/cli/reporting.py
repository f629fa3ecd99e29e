"""Reports what a run did, as values and as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.cli.reasons import invalid_text, too_late_text
from penstock.model.counts import counted
from penstock.printable import columns, json_text, shown
from penstock.sinks.callback import CallbackSink

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.cli.working import Working
    from penstock.engine import Engine
    from penstock.model.schema import Stream

MOST_NAMED: Final = 10  # paused queries
COUNTED: Final = ("ingested", "on_time", "corrected", "late", "invalid", "duplicate")  # rows, over a stream's life

Counted = dict[str, int]


def counted_rows(engine: Engine) -> dict[str, Counted]:
    """Return how many rows every stream has counted since it began, in this run and those before."""
    return {name: _rows_of(engine, name) for name in engine.catalog.stream_names()}


def _rows_of(engine: Engine, name: str) -> Counted:
    """Return how many rows a stream has counted since it began."""
    counts = engine.stream(name).pipeline.progress.clock.counts
    return {what: getattr(counts, what) for what in COUNTED}


def report(at_work: Working, seconds: float, before: Mapping[str, Counted]) -> dict[str, Any]:
    """Collect what a run did; ``before``: the rows that streams had counted when it began."""
    engine, project = at_work.engine, at_work.project
    streams = [_stream(engine, name, before.get(name, {})) for name in engine.catalog.stream_names()]
    state = None if at_work.state is None else str(at_work.state)
    found: dict[str, Any] = {"seconds": round(seconds, 3), "streams": streams, "state": state}
    if project is not None:
        sinks = [sink.shown() for sink in project.settings.sinks]
        sinks += [{"kind": sink.kind, "name": str(sink.place)} for sink in project.callbacks]
        found |= {"project": project.name, "changes": list(at_work.changes), "sinks": sinks}
    return found


def _stream(engine: Engine, name: str, before: Counted) -> dict[str, Any]:
    """Collect what came and went in one stream, since it began and in this run."""
    from penstock.control.status import reasons_of

    at_work = engine.stream(name)
    pipeline, counts = at_work.pipeline, _rows_of(engine, name)
    lines = engine.catalog.lines_of(name)
    definitions = [d for one in (name, *lines) for d in engine.catalog.definitions(one)]
    pipelines = [pipeline, *(engine.stream(line).pipeline for line in lines)]
    paused: dict[str, str] = {d.name: "by hand" for d in definitions if engine.catalog.user_paused(d.name)}
    for windows in (one.progress.windows for one in pipelines):
        paused |= {d.name: why.kind for d in definitions if (why := windows.paused.get(d.id)) is not None}
    return {
        "stream": name,
        "queries": len({d.name for d in definitions}),  # a query that was changed may answer in two versions
        **counts,
        "run": {what: number - before.get(what, 0) for what, number in counts.items()},
        "invalid_reasons": reasons_of(pipeline.progress, at_work.stream),
        "invalid_kept": None if pipeline.places.invalid is None else str(pipeline.places.invalid),
        "too_late": {d.name: n for d in definitions if (n := pipeline.progress.windows.too_late.get(d.id))},
        "answers": sum(one.metrics.answers for one in pipelines),
        "open_windows": at_work.open_windows(),
        "watermark_us": pipeline.progress.clock.watermark_us,
        "waiting": pipeline.metrics.waiting,
        "empty_folder": None if counts["ingested"] else _empty_folder(at_work.stream),
        "paused": list(paused),
        "failed": [name for name, kind in paused.items() if kind != "by hand"],
        "reports": [report for one in pipelines for report in one.reports],
    }


def _empty_folder(stream: Stream) -> str | None:
    """Return the folder that a stream reads if nothing is in it; None: there is something, or it is no folder."""
    path = Path(stream.options.get("path", ""))
    if stream.format is None or "path" not in stream.options or not path.is_dir():
        return None
    return None if any(not one.name.startswith((".", "_")) for one in path.iterdir()) else str(path)


def report_text(found: dict[str, Any]) -> str:
    """Word a run's report."""
    lines = [*map(shown, found.get("changes", []))]
    for s in found["streams"]:
        run = s.get("run", s)
        lines.append(
            f"{shown(s['stream'])}: {_rows(run)} through {counted(s['queries'], 'query', 'queries')}, "
            f"{counted(s['answers'], 'answer', 'answers')} in {found['seconds']:.1f} s"
        )
        if run["ingested"] != s["ingested"]:
            lines.append(f"  with the runs before: {_rows(s)}")
        if s["empty_folder"]:
            lines.append(f"  there are no files in {shown(s['empty_folder'])} yet")
        if s["invalid"]:
            kept = f"; kept in {s['invalid_kept']}" if s["invalid_kept"] else ""
            lines.append(f"  invalid: {invalid_text(s['invalid_reasons'])}{kept}")
        if s["too_late"]:
            lines.append(f"  too late for windows already final: {too_late_text(s['too_late'].items())}")
        if s["open_windows"]:
            lines.append(f"  {_open_windows(s['open_windows'], kept=found.get('state') is not None)}")
        if s["waiting"]:
            lines.append(f"  {_waiting(s['waiting'])}")
        lines += [f"  {shown(text)}" for text in s["reports"]]
        if s["paused"]:
            lines.append(f"  {_paused(s['paused'])}")
    lines += map(_answers_are, found.get("sinks", []))
    return "\n".join(lines)


def _rows(counts: Mapping[str, Any]) -> str:
    """Word how many rows came, and which of them were late or invalid."""
    among = f"{counts['late']:,} late, {_corrected(counts)}{counts['invalid']:,} invalid"
    return f"{counted(counts['ingested'], 'row')} ({among})"


def _answers_are(sink: Mapping[str, str]) -> str:
    """Say where a sink has put answers; one without a place, as the terminal, is named alone."""
    where = [text for name, text in sink.items() if name != "kind"]
    if sink["kind"] == CallbackSink.kind:
        return f"answers went to: function {shown(where[0])}"
    return f"answers are in {shown(where[0])} ({sink['kind']})" if where else f"answers went to: {sink['kind']}"


def _open_windows(number: int, *, kept: bool) -> str:
    """Say what becomes of windows that are not final; where there is a state folder, a later run goes on with them."""
    stay = f"{counted(number, 'window stays', 'windows stay')} open"
    if kept:
        return f"{stay} until later rows make {'it' if number == 1 else 'them'} final; the next run goes on from here"
    return f"{stay}; --once --flush ends the stream and answers {'it' if number == 1 else 'them'}"


def _paused(names: Sequence[str]) -> str:
    """Name queries that answer nothing until somebody resumes them."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"paused: {', '.join(map(shown, names[:MOST_NAMED]))}{more}; penstock queries says why"


def _waiting(rows: int) -> str:
    """Say that rows are not numbered yet."""
    return f"{counted(rows, 'row waits', 'rows wait')} for the watermark to be numbered"


def _corrected(stream: Mapping[str, Any]) -> str:
    """Word how many late rows were applied, where any were."""
    return f"{stream['corrected']:,} corrected, " if stream["corrected"] else ""


def table_text(table: pa.Table) -> str:
    """Print a table that a statement gave: a plan as it is, anything else in columns with a head."""
    from penstock.sinks.row_values import plain_rows

    rows = [list(row.values()) for row in plain_rows(table)]
    return columns_text(table.column_names if table.num_columns > 1 else None, rows)


def columns_text(names: Sequence[str] | None, rows: Iterable[Sequence[object]]) -> str:
    """Print rows in columns, under their names if there are any."""
    cells = [[_cell(value) for value in row] for row in rows]
    if names is not None:
        cells.insert(0, list(map(shown, names)))
    widths = [max(columns(row[i]) for row in cells) for i in range(len(cells[0]))] if cells else []
    return "\n".join("  ".join(_padded(c, w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells)


def _padded(text: str, width: int) -> str:
    """Fill a text up to so many columns of a terminal."""
    return text + " " * (width - columns(text))


def _cell(value: object) -> str:
    """Write a value on one line."""
    if isinstance(value, list | dict):
        return json_text(value)
    return "" if value is None else shown(str(value))


def shown_answers(engine: Engine, number: int) -> dict[str, list[dict[str, Any]]]:
    """Return the last answers of every query as JSON can hold them."""
    from penstock.sinks.row_values import plain_rows

    tables = {name: engine.results(name) for name in engine.catalog.query_names()}
    return {name: plain_rows(table.slice(_from(table, number))) for name, table in tables.items()}


def shown_text(engine: Engine, number: int) -> str:
    """Print the last answers of every query."""
    from penstock.sinks.row_values import plain_rows
    from penstock.sinks.terminal import columns_of

    lines = []
    for name in engine.catalog.query_names() if number else []:
        table = engine.results(name)
        kept = " kept" if engine.catalog.query(name).query.is_continuous else ""
        lines.append(f"\n\n{shown(name)}: {counted(table.num_rows, 'answer', 'answers')}{kept}")
        lines += [f"\n  {columns_of(row)}" for row in plain_rows(table.slice(_from(table, number)))]
    return "".join(lines)


def _from(table: Any, number: int) -> int:
    """Return the first of the last rows of a table."""
    return max(0, int(table.num_rows) - number)
