"""Writes a status as lines for a terminal of 80 columns."""

from __future__ import annotations

import textwrap
from typing import Any, Final

from penstock.cli.backfill_progress import backfill_text
from penstock.cli.moments import about, clock_time, moment, span
from penstock.cli.reasons import invalid_text, too_late_text
from penstock.cli.reporting import columns_text
from penstock.model.byte_sizes import format_bytes
from penstock.model.counts import counted
from penstock.model.duration import format_duration
from penstock.printable import shown, visible

WIDTH: Final = 80
_TERMS: Final = ("on_time", "corrected", "late", "invalid", "duplicate")
_MOST: Final = 10  # paused queries that a status shows; penstock queries shows all


def status_text(found: dict[str, Any]) -> str:
    """Word a whole status."""
    lines = [_head(found), *_overload(found.get("overload"))]
    for stream in found["streams"]:
        mine = [
            (query["query"], query["too_late"]) for query in found["queries"] if query["stream"] == stream["stream"]
        ]
        told = {**stream, "sessions_unknown": not found["answers_requests"] and _has_sessions(found, stream)}
        lines += ["", *_stream_lines(told, too_late_text(mine), held_back=_background_is_off(found))]
    paused = [query for query in found["queries"] if query["state"] == "paused"]
    if paused:
        lines += ["", "paused queries", *(line for query in paused[:_MOST] for line in _paused_lines(query))]
    if len(paused) > _MOST:
        lines.append(f"  … and {len(paused) - _MOST} more: penstock queries")
    return "\n".join(lines)


def _has_sessions(found: dict[str, Any], stream: dict[str, Any]) -> bool:
    """Tell whether queries of a stream are over sessions: which of them are open, only an engine knows."""
    return any(q["stream"] == stream["stream"] and q["window"].startswith("[SESSION") for q in found["queries"])


def _head(found: dict[str, Any]) -> str:
    """Word whether an engine runs."""
    if not found["running"]:
        return f"{shown(found['folder'])}: no engine runs; this is what the last one left"
    since = found["since_us"]
    began = f", since {clock_time(since)}" if since is not None else ""
    head = f"{shown(found['folder'])}: running, process {found['pid']}{began}"
    return head if found["answers_requests"] else head + "\n  it takes no requests now; this is its last commit"


def _overload(figures: dict[str, Any] | None) -> list[str]:
    """Word how an engine with a cap stands to it."""
    if not figures:
        return []
    parts = _held_of(figures)
    parts += [f"{counted(figures['skipped'], 'window')} skipped" if figures["skipped"] else ""]
    parts += [f"{counted(figures['preempted'], 'pause')}, {figures['resumed']:,} ended" if figures["preempted"] else ""]
    parts += [f"rows halved {counted(figures['sampled'], 'time')} for queries that shed" if figures["sampled"] else ""]
    return _wrapped("memory", "; ".join(part for part in parts if part))


def _held_of(figures: dict[str, Any]) -> list[str]:
    """Word what is held of a cap, of memory or of queues, and what batches have met."""
    held, peak, cap = (format_bytes(figures[f"{name}_bytes"]) for name in ("held", "peak", "cap"))
    active = [stage["stage"] for stage in figures["stages"] if stage["active"]]
    parts = [f"{held} held, {peak} at most, of {cap}", f"stages: {', '.join(active)}" if active else ""]
    parts += [f"batches waited {span(figures['held_s'])}" if figures["held_s"] >= 0.05 else ""]
    return [*parts, f"{counted(figures['over'], 'batch', 'batches')} let in above the cap" if figures["over"] else ""]


def _background_is_off(found: dict[str, Any]) -> bool:
    """Tell whether an engine whose memory runs short does no background work, so that no past is read."""
    stages = (found.get("overload") or {}).get("stages", ())
    return any(stage["stage"] == "background" and stage["active"] for stage in stages)


def _stream_lines(stream: dict[str, Any], too_late: str, *, held_back: bool) -> list[str]:
    """Word where a stream stands; ``too_late`` says which queries missed rows, ``held_back`` that no past is read."""
    lines = [f"{shown(stream['stream'])}: watermark {moment(stream['watermark_us'])}{_behind(stream)}"]
    if stream["failure"]:
        lines += _wrapped("stopped", stream["failure"])
    lines += _wrapped("rows", _law(stream))
    if stream["counts"]["invalid"]:
        lines += _wrapped("invalid", invalid_text(stream["invalid_reasons"]))
    if too_late:
        lines += _wrapped("too late", f"rows too late for windows already final: {too_late}")
    paused = f", {stream['paused']:,} of them paused" if stream["paused"] else ""
    lagging = f"; {stream['lagging']:,} of them lag behind" if stream.get("lagging") else ""
    windows = f"{counted(stream['open_windows'], 'window')} open"
    windows += " beside sessions, which only a running engine counts" if stream["sessions_unknown"] else ""
    lines += _wrapped("queries", f"{stream['queries']:,}{paused}{lagging}; {windows}{_urgent(stream)}")
    if stream["answered"]["windows"]:
        lines += _wrapped("answers", _answered(stream["answered"]))
    if behind := _backlog(stream.get("backlog") or {}):
        lines += _wrapped("behind", behind)
    if stream.get("held_s", 0.0) >= 0.05:
        lines += _wrapped("held", f"batches have waited {span(stream['held_s'])} for answers since the start")
    if stream.get("sampling", "1") != "1":
        why = "" if stream["sampling"] == stream.get("asked_sampling", stream["sampling"]) else ", as too much comes"
        lines += _wrapped("sampled", f"queries that shed load take {stream['sampling']} of the rows{why}")
    beats = f"a heartbeat after {about(stream['idle_us'])} without rows" if stream["idle_us"] else "no heartbeat"
    ended = ", ended" if stream["ended"] else ""
    lines += _wrapped("batches", f"{counted(stream['batches'], 'commit', 'commits')}{ended}; {beats}")
    if stream.get("operators"):
        lines += _wrapped("operators", _operators(stream["operators"]))
    if stream.get("queue"):
        lines += _wrapped("queue", "; ".join(part for part in _held_of(stream["queue"]) if part))
    for one in stream.get("backfills", ()):
        lines += _wrapped("backfill", f"{shown(one['query'])}: {backfill_text([one], held_back=held_back)}")
    for side in stream.get("retained", ()):
        lines += _wrapped("join", _retained(side))
    for sink in stream["sinks"]:
        lines += _wrapped("sink", _sink(sink))
    return lines


def _operators(found: dict[str, Any]) -> str:
    """Word what waits for operators, and for which of them."""
    waiting = counted(found["queue_rows"], "row waits", "rows wait")
    busy = [f"{shown(one['call'])} {one['waiting']:,}" for one in found["operators"] if one["waiting"]]
    told = f"; {', '.join(busy[:_MOST])}" if busy else ""
    return f"{counted(len(found['operators']), 'operator')}, by {found['policy']}: {waiting}{told}"


def _backlog(behind: dict[str, Any]) -> str:
    """Word what waits in the source, and the windows that wait to be answered."""
    parts = []
    if behind.get("files"):
        rows = f", about {counted(behind['rows'], 'row')}" if behind["rows"] is not None else ""
        ago = f", the oldest written {span(behind['oldest_s'])} ago" if behind["oldest_s"] is not None else ""
        parts.append(f"{counted(behind['files'], 'file')}{rows} in the source{ago}")
    if behind.get("windows") and behind["waited_s"] >= 0.05:
        windows = counted(behind["windows"], "final window", "final windows")
        parts.append(f"{windows} to answer, for {span(behind['waited_s'])}; {span(behind['expected_s'])} of work")
    return "; ".join(parts)


def _urgent(stream: dict[str, Any]) -> str:
    """Word how many queries are more urgent than others, or less."""
    urgent, fresh = stream.get("urgent", 0), stream.get("fresh", 0)
    return (f"; {urgent:,} with a priority or deadline" if urgent else "") + (f"; {fresh:,} fresh" if fresh else "")


def _retained(side: dict[str, Any]) -> str:
    """Word how many rows of a stream wait for those of another."""
    waiting = f"{counted(side['rows'], 'row')} of {shown(side['stream'])} wait, {side['bytes']:,} bytes"
    if side["held"]:
        return f"{waiting}; {shown(side['stream'])} is held back until the other stream comes on"
    return waiting + (f"; it was held back for {span(side['held_seconds'])}" if side["held_seconds"] else "")


def _answered(answered: dict[str, Any]) -> str:
    """Word how soon windows were answered."""
    late = answered["past_deadline"]
    kept = f"{late:,} past their deadline" if late else "all before their deadline"
    within = f"95 % within {span(answered['response_p95_s'])}"
    return f"{counted(answered['windows'], 'window', 'windows')} since the start, {within}; {kept}"


def _behind(stream: dict[str, Any]) -> str:
    """Word how far a stream is behind the clock."""
    behind = stream["behind_us"]
    if behind is None:
        return ""
    return f", {about(-behind)} ahead of the clock" if behind < 0 else f", {about(behind)} behind the clock"


def _law(stream: dict[str, Any]) -> str:
    """Word what became of the rows."""
    counts = stream["counts"]
    terms = " + ".join(f"{counts[term]:,} {term.replace('_', ' ')}" for term in _TERMS)
    holds = "(adds up)" if stream["law_holds"] else "(DOES NOT ADD UP: please report it)"
    return f"{counts['ingested']:,} ingested = {terms} {holds}"


def _sink(sink: dict[str, Any]) -> str:
    """Word how a sink is."""
    lag = f"{counted(sink['lag'], 'batch', 'batches')} behind" if sink["lag"] else "has everything"
    if sink.get("backlog"):
        lag += f", {counted(sink['backlog'], 'answer', 'answers')} to take"
    if sink.get("held_seconds"):
        lag += f", the stream has waited {sink['held_seconds']:.1f} s for it"
    if not sink["failure"]:
        return f"{sink['sink']}: {lag}"
    since = f" since {clock_time(sink['since_us'])}" if sink["since_us"] is not None else ""
    return (
        f"{sink['sink']}: {lag}, fails{since} ({counted(sink['attempts'], 'attempt', 'attempts')}): {sink['failure']}"
    )


def _paused_lines(query: dict[str, Any]) -> list[str]:
    """Word why a query is paused."""
    return _folded(f"  {shown(query['query'])}: {visible(query['why'] or '')}", "    ")


def queries_text(found: dict[str, Any]) -> str:
    """List all queries, stream by stream."""
    parts = []
    for stream in found["streams"]:
        mine = [query for query in found["queries"] if query["stream"] == stream["stream"]]
        number = sum(query["state"] != "finishing" for query in mine)  # which an edition after it goes on with
        parts.append("\n".join([f"{shown(stream['stream'])}: {counted(number, 'query', 'queries')}", *_listed(mine)]))
    return "\n\n".join(parts) or "there are no streams"


def _listed(queries: list[dict[str, Any]]) -> list[str]:
    """List the queries of a stream in columns, each with what is to say about it below."""
    if not queries:
        return []
    rows = [(q["query"], q["window"], q["state"], _next(q)) for q in queries]
    head, *lines = columns_text(("query", "window", "state", "next window ends"), rows).splitlines()
    listed = [f"  {head}"]
    for query, line in zip(queries, lines, strict=True):
        listed += [f"  {line}", *(told for text in _remarks(query) for told in _folded(f"    {text}", "    "))]
    return listed


def _next(query: dict[str, Any]) -> str:
    """Word a query's next window."""
    return "" if query["next_end_us"] is None else moment(query["next_end_us"])


def _remarks(query: dict[str, Any]) -> list[str]:
    """Say what else there is to a query."""
    remarks = [visible(query["why"])] if query["why"] else []
    if query.get("urgency"):
        remarks.append(query["urgency"])
    if query["ends_us"] is not None:
        remarks.append(f"ends by itself at {clock_time(query['ends_us'])}")
    if query.get("period_us") is not None:
        remarks.append(f"answered every {format_duration(query['period_us'])}, together with others")
    if query.get("goes_on"):
        remarks.append("it answers the windows that began before its period changed")
    elif query["state"] == "finishing":
        remarks.append(f"version {query['version']}, altered since: it answers the windows that began before")
    if query.get("superseded"):
        remarks.append(f"{counted(query['superseded'], 'window')} skipped for fresher ones")
    if query.get("selectivity", 1.0) < 0.995:  # what is rounded to all of them is no news
        remarks.append(f"{query['selectivity']:.0%} of its windows have something to say")
    if query["skipped"]:
        remarks.append(f"{query['skipped']:,} empty windows skipped while the stream was silent")
    if query.get("shed"):
        remarks.append(f"{counted(query['shed'], 'row')} shed")
    if query["too_late"]:
        remarks.append(f"{counted(query['too_late'], 'row', 'rows')} came too late for it")
    if query["origin"] == "added":
        remarks.append("added by a command; penstock drop removes it")
    return remarks


def _wrapped(title: str, text: str) -> list[str]:
    """Put a title before a text, folded to the width of a terminal."""
    return _folded(f"  {title:<9}{visible(text)}", " " * 11)


def _folded(text: str, indent: str) -> list[str]:
    """Fold a line."""
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
