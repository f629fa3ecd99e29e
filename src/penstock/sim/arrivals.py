"""Draws or reads the arrival times of tuples: Poisson, bursts, on-off flows, recorded packets."""

from __future__ import annotations

import lzma
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from penstock.errors import SourceError

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Tuples in the order in which they come: time, and the number of the stream."""

    time: Array
    stream: Array

    def __len__(self) -> int:
        """Count the tuples."""
        return len(self.time)

    @property
    def gap(self) -> float:
        """Return the mean time between tuples."""
        return float((self.time[-1] - self.time[0]) / max(1, len(self.time) - 1))


def merged(streams: Sequence[Array]) -> Arrivals:
    """Merge streams by time; of equal times, the stream named first comes first."""
    time = np.concatenate([np.asarray(s, dtype=np.float64) for s in streams])
    stream = np.concatenate([np.full(len(s), number, dtype=np.int64) for number, s in enumerate(streams)])
    order = np.lexsort((stream, time))
    return Arrivals(time[order], stream[order])


def lbl_pkt_4(tuples: int | None = None, kind: str = "") -> Array:
    """Read arrivals of LBL-PKT-4 in seconds, wide-area packets of an hour of 1994 (Paxson and Floyd 1995).

    Without a kind, the first 60,000 packets that are not plain TCP data; ``udp`` and ``syn_fin`` are those of the hour.
    """
    name = f"lbl_pkt_4_{kind}.xz" if kind else "lbl_pkt_4.xz"
    data = resources.files("penstock.sim").joinpath(name).read_bytes()
    return np.asarray(unpacked(lzma.decompress(data))[:tuples] / 1e6)


def packed(times_us: Array) -> bytes:
    """Write whole microseconds as the gaps between them, seven bits a byte, least first."""
    gaps = np.diff(times_us.astype(np.int64), prepend=0)
    bytes_ = bytearray()
    for gap in gaps.tolist():
        while gap >= 128:
            bytes_.append(gap & 127 | 128)
            gap >>= 7
        bytes_.append(gap)
    return bytes(bytes_)


def unpacked(data: bytes) -> Array:
    """Read what ``packed`` wrote."""
    raw = np.frombuffer(data, dtype=np.uint8).astype(np.int64)
    ends = np.flatnonzero(raw < 128)
    starts = np.concatenate([[0], ends[:-1] + 1])
    place = np.arange(len(raw)) - np.repeat(starts, ends - starts + 1)
    return np.cumsum(np.add.reduceat((raw & 127) << (7 * place), starts))


def recorded(path: Path, column: int = 0, unit_s: float = 1e-6) -> Array:
    """Read times from a text or CSV file, gzip or not, as seconds."""
    try:
        times = np.genfromtxt(path, delimiter=",", usecols=(column,), dtype=np.float64)
    except (OSError, ValueError) as error:
        raise SourceError(f"cannot read arrivals from {path}", detail=str(error).splitlines()[0]) from None
    times = times[np.isfinite(times)] * unit_s
    if len(times) < 2 or np.any(np.diff(times) < 0):
        raise SourceError(f"{path} holds no arrivals in order of time", hint="One line a tuple, its time first.")
    return np.asarray(times - times[0])


def poisson(tuples: int, gap: float, seed: int) -> Array:
    """Draw arrivals with independent exponential gaps."""
    return np.asarray(np.cumsum(np.random.default_rng(seed).exponential(gap, tuples)))


def burst_of(times: Array, size: int) -> Array:
    """Let every so many consecutive tuples come together with the first of them (Sharaf 2007, §4.4.2)."""
    return np.asarray(times[np.arange(len(times)) // size * size])


def on_off_pareto(until: float, seed: int, *, gap: float = 1.0, shape: float = 2.3, least: float = 1.0) -> Array:
    """Draw flows that begin by a Poisson process and send a tuple a unit for a Pareto time (B04 §6)."""
    draw = np.random.default_rng(seed)
    begins = np.cumsum(draw.exponential(gap, int(until / gap * 2) + 20))
    begins = begins[begins < until]
    lasts = least * (1.0 - draw.random(len(begins))) ** (-1.0 / shape)
    times = [begin + np.arange(int(np.ceil(last))) for begin, last in zip(begins, lasts, strict=True)]
    found = np.sort(np.concatenate(times)) if times else np.zeros(0)
    return np.asarray(found[found < until])
