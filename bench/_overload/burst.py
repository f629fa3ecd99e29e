"""Lets twice and four times of what a worker can take arrive, and looks on: what is kept, skipped, shed, and late.

A burst at these loads leaves a backlog that takes longer than the burst itself to be worked off: five minutes of it
would take a quarter of an hour. So it is shorter; the pace is the real one. After it nothing comes any more, and it is
waited until every exact query has answered every row.

Queries of all kinds run beside one another: one that scores every row with an expensive function, alerts with a
deadline, fresh dashboards, queries that shed load, and the same once more that do not.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bench._live.neighbours import SECOND_US, START_US
from bench._overload.packets import LOOK_S, PacketArrivals, PacketFeed, packet_feed
from bench._overload.turns import tick_s
from penstock.engine import Engine
from penstock.model.byte_sizes import parse_bytes

SCORED: Final = "scored"
WINDOW: Final = "[RANGE 1 s SLIDE 1 s]"
ASKED: Final = "SELECT source, count(*) AS n, sum(size) AS bytes FROM packets {window} WHERE size > {least}"
LONG_S: Final = 5  # range of alerts and dashboards


@dataclass(frozen=True, slots=True)
class PacketBurst:
    """How much comes for how long, who asks, and the caps."""

    rounds: int = 4_000  # of a hash, a row
    calm: int = 6  # ticks at the load that the worker can just take,
    twice: int = 24  # at twice,
    four_times: int = 16  # and at four times of it
    load: float = 0.95
    slow_s: float = 2.0
    alerts: int = 20
    dashboards: int = 10
    sheds: int = 3  # queries that shed load, each with a twin that does not
    deadline_s: float = 2.0  # of the alerts
    memory: str = "64 MB"
    queue_bytes: str = "32 MB"  # of the rows that wait, in files and in memory
    arrivals: PacketArrivals = field(default_factory=lambda: PacketArrivals(ticks=46, rows_of_packet=58, payload=1_000))

    @property
    def factors(self) -> list[int]:
        """List how many times the load each tick brings."""
        return [1] * self.calm + [2] * self.twice + [4] * self.four_times

    @property
    def rows(self) -> list[int]:
        """Count the rows of each tick."""
        return [rows * factor for rows, factor in zip(self.arrivals.rows, self.factors, strict=True)]

    def queries(self) -> dict[str, str]:
        """Write the queries."""
        long, wanted = f"[RANGE {LONG_S} s SLIDE 1 s]", f"WITH (deadline = '{round(1_000 * self.deadline_s)} ms')"
        found = {SCORED: f"SELECT id, hashed({self.rounds}, 1, payload) AS score FROM packets"}
        for n in range(self.alerts):
            text = f"SELECT max(size) AS most, count(*) AS n FROM packets {long} WHERE size > {50 * n}"
            found[f"alert{n:02d}"] = f"{text} {wanted}"
        for n in range(self.dashboards):
            text = f"SELECT source, percentile(size, 0.9) AS p FROM packets {long} WHERE size > {20 * n}"
            found[f"fresh{n:02d}"] = f"{text} GROUP BY source WITH (emit = 'fresh')"
        for n in range(self.sheds):
            text = f"{ASKED.format(window=WINDOW, least=100 * n)} GROUP BY source"
            found |= {f"shed{n}": f"{text} WITH (shed = 'sample')", f"exact{n}": text}
        return found


@dataclass(slots=True)
class _Peaks:
    """The most that was seen to be held by queues."""

    queue_bytes: int = 0
    unread_s: list[float] = field(default_factory=list)  # of the stream: files that have appeared and are not read

    def look(self, feed: PacketFeed) -> None:
        """Look at what is held now."""
        pipeline = feed.engine.stream("packets").pipeline
        held = pipeline.continuous.operators.stored_bytes  # what the cap is for: blocks, and their files
        self.queue_bytes = max(self.queue_bytes, round(held))
        read = pipeline.progress.clock.last_us
        if read is not None:
            self.unread_s.append(max(0.0, (feed.last_us - read) / SECOND_US))


def overloaded(session: SparkSession, load: PacketBurst) -> dict[str, Any]:
    """Run the burst once, and tell what came of it."""
    caps = {"memory": load.memory, "queue_bytes": load.queue_bytes}
    with packet_feed(session, load.queries(), load.arrivals.payload) as feed:
        pace_s = tick_s(feed, load.arrivals.rows, load.load, load.slow_s)
    with packet_feed(session, load.queries(), load.arrivals.payload, **caps) as feed:
        peaks, began = _Peaks(), time.perf_counter()
        _feed(feed, load, pace_s, peaks)
        offered_s = time.perf_counter() - began
        _work_off(feed, peaks)
        drained_s = time.perf_counter() - began - offered_s
        _close(feed)
        told = {"tick": round(pace_s, 4), "offered for": round(offered_s, 1), "worked off in": round(drained_s, 1)}
        told |= _caps_kept(feed.engine, peaks, load) | _exact(feed, load) | _counted(feed, load)
        feed.engine.stop()
        return told | _sampled(feed.engine, load)


def _feed(feed: PacketFeed, load: PacketBurst, pace_s: float, peaks: _Peaks) -> None:
    """Let files appear, shed load as somebody would who watches, and look on."""
    began, factor = time.perf_counter(), 1
    feed.engine.start()
    for number, (rows, now) in enumerate(zip(load.rows, load.factors, strict=True)):
        _look_until(began + number * pace_s, feed, peaks)
        if now != factor:
            feed.engine.set_sampling("packets", f"1/{now}")
            factor = now
        feed.appear(rows)


def _close(feed: PacketFeed) -> None:
    """Let all windows become final by a row that comes long after them; its own window stays open."""
    feed.engine.set_sampling("packets", "1")
    feed.files += 2 * LONG_S
    feed.appear(1)
    feed.wait()


def _look_until(when: float, feed: PacketFeed, peaks: _Peaks) -> None:
    """Look at what is held until a time."""
    pause = threading.Event()
    while (left := when - time.perf_counter()) > 0:
        peaks.look(feed)
        pause.wait(min(LOOK_S, left))


def _work_off(feed: PacketFeed, peaks: _Peaks) -> None:
    """Wait until all is answered, and look on."""
    waiter = threading.Thread(target=feed.wait)
    waiter.start()
    while waiter.is_alive():
        peaks.look(feed)
        waiter.join(LOOK_S)
    if not feed.is_drained:
        raise TimeoutError("the stream did not work off what had come")


# -- what came of it -------------------------------------------------------------------------------------------------


def _caps_kept(engine: Engine, peaks: _Peaks, load: PacketBurst) -> dict[str, Any]:
    """Compare what was held with the caps, and tell which stages were entered."""
    found = engine.metrics().overload
    queues = engine.metrics().streams[0].queue
    entered = [*found.stages, *(() if queues is None else queues.stages)]
    stages = {one.stage: max(other.times for other in entered if other.stage == one.stage) for one in entered}
    return {
        "peak of memory / cap": round(found.peak_bytes / found.cap_bytes, 3),
        "peak of queues / cap": round(peaks.queue_bytes / parse_bytes(load.queue_bytes), 3),
        "stages": {stage: times for stage, times in stages.items() if times},
        "most unread": round(max(peaks.unread_s, default=0.0), 1),
    }


def _exact(feed: PacketFeed, load: PacketBurst) -> dict[str, Any]:
    """Count what exact queries have lost, and the alerts that were late."""
    engine = feed.engine
    ids = engine.results(SCORED)["id"].to_numpy()
    whole = pq.read_table(feed.folder / "in", columns=["ts", "source", "size"])
    wrong = sum(wrong_groups(engine.results(f"exact{n}"), whole, 100 * n) for n in range(load.sheds))
    alerts = [engine.metrics().query(f"alert{n:02d}") for n in range(load.alerts)]
    return {
        "rows": feed.rows,
        "rows lost": feed.rows - len(set(ids.tolist())),
        "rows answered twice": len(ids) - len(set(ids.tolist())),
        "exact groups that are wrong": wrong,
        "alerts": sum(one.windows for one in alerts),
        "alerts past their deadline": sum(one.past_deadline for one in alerts),
    }


def wrong_groups(answers: pa.Table, rows: pa.Table, least: int) -> int:
    """Count the groups of windows that an exact query has wrong, has lost, or has too many."""
    final = pc.less(rows["ts"], pc.max(rows["ts"]))  # but the row that closed all windows
    kept = rows.filter(pc.and_(pc.greater(rows["size"], least), final))
    ends = pc.add(pc.multiply(pc.divide(kept["ts"].cast(pa.int64()), SECOND_US), SECOND_US), SECOND_US)
    truth = pa.table({"end": ends, "source": kept["source"], "size": kept["size"]})
    truth = truth.group_by(["end", "source"]).aggregate([("size", "count"), ("size", "sum")])
    right = {(one["end"], one["source"], one["size_count"], one["size_sum"]) for one in truth.to_pylist()}
    said = answers.select(["source", "n", "bytes"]).append_column("end", answers["window_end"].cast(pa.int64()))
    return len(right ^ {(one["end"], one["source"], one["n"], one["bytes"]) for one in said.to_pylist()})


def _counted(feed: PacketFeed, load: PacketBurst) -> dict[str, Any]:
    """Compare what was skipped and shed with what is counted."""
    metrics, looked_at = feed.engine.metrics(), _looked_at(feed.engine.results("shed0"))
    fresh = [metrics.query(f"fresh{n:02d}") for n in range(load.dashboards)]
    shed = [metrics.query(f"shed{n}").shed for n in range(load.sheds)]  # the same of all: a stream has one level
    uncounted = sum(abs(_filled_windows(feed) - one.windows - one.skipped) for one in fresh)
    uncounted += sum(abs(feed.rows - 1 - one - looked_at) for one in shed)  # the row that closes all is in no window
    skipped = sum(one.skipped for one in fresh)
    return {"windows skipped": skipped, "rows shed": max(shed), "neither answered nor counted": uncounted}


def _filled_windows(feed: PacketFeed) -> int:
    """Count the windows of a dashboard that hold rows: those without groups are no answers."""
    times = pq.read_table(feed.folder / "in", columns=["ts"])["ts"].cast(pa.int64()).to_numpy()
    seconds = set(((times[times < times.max()] - START_US) // SECOND_US).tolist())
    return len({second + more for second in seconds for more in range(LONG_S)})


def _looked_at(answers: pa.Table) -> int:
    """Count the rows that a query which sheds, and takes all rows, has looked at."""
    return round(float(pc.sum(pc.multiply(answers["n"].cast(pa.float64()), answers["sampled"])).as_py() or 0.0))


def _sampled(engine: Engine, load: PacketBurst) -> dict[str, Any]:
    """Count the estimates from samples, and those whose bound holds."""
    answers, held = 0, list[bool]()
    for n in range(load.sheds):
        exact = dict(_by_group(engine.results(f"exact{n}"), ("n", "bytes")))
        columns = ("n", "n_bound", "bytes", "bytes_bound", "sampled")
        for key, values in _by_group(engine.results(f"shed{n}"), columns):
            if values[-1] < 1 and key in exact:
                answers += 1
                held += [abs(values[at] - exact[key][at // 2]) <= values[at + 1] for at in (0, 2)]
    share = statistics.fmean(held) if held else 0.0
    return {"sampled answers": answers, "sampled estimates": len(held), "bounds that hold": round(share, 4)}


def _by_group(table: pa.Table, columns: Sequence[str]) -> Iterator[tuple[tuple[int, str], tuple[float, ...]]]:
    """Give the columns of each window and source."""
    ends = table["window_end"].cast(pa.int64()).to_pylist()
    values = zip(*(table[name].to_pylist() for name in columns), strict=True)
    for end, source, some in zip(ends, table["source"].to_pylist(), values, strict=True):
        yield (end - START_US, source), tuple(float(one) if one is not None else float("inf") for one in some)
