"""One trial: what it claims and whether that held, what it measured, and how much memory it took."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from penstock.errors import PenstockError


@dataclass(frozen=True, slots=True)
class Claim:
    """Something that must hold, whether it did, and what was seen if not."""

    text: str
    held: bool
    seen: str = ""

    def __str__(self) -> str:
        return f"{'holds' if self.held else 'BROKEN'}: {self.text}" + ("" if self.held else f"\n    seen: {self.seen}")


@dataclass(slots=True)
class Trial:
    """A folder to work in, and all that is found out."""

    name: str
    folder: Path
    say: Callable[[str], None] = print
    claims: list[Claim] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)

    def claim(self, text: str, held: object, seen: object = "") -> bool:
        """Note whether something that must hold does."""
        found = Claim(text, bool(held), str(seen)[:2_000])
        self.claims.append(found)
        self.say(str(found))
        return found.held

    def measure(self, name: str, value: Any) -> None:
        """Note a figure."""
        self.figures[name] = round(value, 4) if isinstance(value, float) else value
        self.say(f"{name}: {self.figures[name]}")

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Measure how many seconds something takes."""
        began = time.perf_counter()
        yield
        self.measure(f"{name}_s", time.perf_counter() - began)

    def memory(self, name: str) -> None:
        """Measure what is held now."""
        self.measure(f"memory_{name}_mb", memory_mb())

    def refused(self, text: str, action: Callable[[], object], *words: str) -> PenstockError | None:
        """Claim that an action is refused with an error of ours that says certain words."""
        try:
            action()
        except PenstockError as error:
            told = str(error)
            self.claim(text, all(word in told for word in words), told)
            return error
        except BaseException as error:
            self.claim(text, False, f"{type(error).__module__}.{type(error).__name__}: {error}")
        else:
            self.claim(text, False, "nothing was raised")
        return None

    @property
    def broken(self) -> list[Claim]:
        return [claim for claim in self.claims if not claim.held]

    def to_dict(self) -> dict[str, Any]:
        claims = [{"claim": c.text, "held": c.held, **({} if c.held else {"seen": c.seen})} for c in self.claims]
        return {"trial": self.name, "broken": len(self.broken), "claims": claims, "figures": self.figures}


def memory_mb() -> dict[str, int]:
    """Tell how much this Python, the JVMs below it and other processes below it hold."""
    found = {"python": psutil.Process().memory_info().rss, "jvm": 0, "workers": 0}
    for child in psutil.Process().children(recursive=True):
        try:
            found["jvm" if child.name() == "java" else "workers"] += child.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return {name: held >> 20 for name, held in found.items()}


def flatness(values: list[float], first: slice, last: slice) -> float:
    """Tell how many times larger the middle of the last values is than that of the first."""
    return median(values[last]) / max(median(values[first]), 1e-9)
