"""Writes the page of results: a summary, and a section for every file of figures, its notes included."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench._results.always_on import churn, restart, soak
from bench._results.filters import filters
from bench._results.groupings import groupings
from bench._results.joins import joins
from bench._results.latency import latency
from bench._results.live import live
from bench._results.mixed import mixed
from bench._results.overload import overload
from bench._results.peers import peers
from bench._results.planner import planner
from bench._results.predicates import predicates
from bench._results.section import Document, Maker, Section, Table
from bench._results.tools import cli, sim
from bench._results.windows import windows
from penstock.report.picture import picture

# In the order of the page; a file of another name comes last, with its targets alone.
SECTIONS: Final[Mapping[str, Maker]] = {
    "windows": windows,
    "predicates": predicates,
    "filters": filters,
    "groupings": groupings,
    "mixed": mixed,
    "latency": latency,
    "live": live,
    "overload": overload,
    "joins": joins,
    "peers": peers,
    "planner": planner,
    "restart": restart,
    "churn": churn,
    "soak": soak,
    "sim": sim,
    "cli": cli,
}
INTRODUCTION: Final = """\
# Results

Every figure here is made from a file in [results/](results/) by `penstock bench report`; change nothing here by
hand. What a figure means, and why a target was missed, stands in [notes/](notes/), a file a benchmark. Machines
differ: compare figures within a section."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One file of figures with its section and its notes."""

    name: str
    document: Document
    section: Section
    notes: str

    @property
    def anchor(self) -> str:
        """Return the place of the section in the page."""
        return self.section.title.lower().replace(" ", "-").replace(",", "")

    @property
    def missed(self) -> list[str]:
        """Name the targets that were missed."""
        return [target["name"] for target in self.document["targets"] if not target["met"]]


def read_results(results: Path, notes: Path) -> list[Measured]:
    """Read all files of figures, in the order of the page."""
    files = {path.stem: path for path in sorted(results.glob("*.json"))}
    ordered = [*(n for n in SECTIONS if n in files), *(n for n in files if n not in SECTIONS)]
    return [_measured(files[name], notes / f"{name}.md") for name in ordered]


def page_and_charts(measured: list[Measured]) -> dict[str, str]:
    """Make the page and the charts, as texts by the names of their files beside the page."""
    made = {"RESULTS.md": "\n\n".join([INTRODUCTION, str(_summary(measured)), *map(_section, measured)]) + "\n"}
    charts = [chart for one in measured for chart in one.section.charts]
    return made | {f"results/{chart.name}.svg": picture(chart.drawing) for chart in charts}


def _measured(path: Path, notes: Path) -> Measured:
    """Read one file of figures and what was noted on it."""
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    text = notes.read_text(encoding="utf-8") if notes.exists() else ""
    return Measured(path.stem, document, SECTIONS.get(path.stem, _other(path.stem))(document), text)


def _other(name: str) -> Maker:
    """Make a section that knows the name of its benchmark only."""
    command = f"penstock bench {name} --json bench/results/{name}.json"
    return lambda document: Section(title=name.capitalize(), asked=f"The benchmark `{name}`.", command=command)


def _summary(measured: list[Measured]) -> Table:
    """Sum up how many targets were met, and which were not."""
    rows = []
    for one in measured:
        targets = one.document["targets"]
        met = f"{len(targets) - len(one.missed)} of {len(targets)}"
        rows.append((f"[{one.section.title}](#{one.anchor})", met, "; ".join(one.missed)))
    return Table("", ("benchmark", "targets met", "missed"), tuple(rows), words=(0, 2))


def _section(one: Measured) -> str:
    """Write one section."""
    section = one.section
    parts = [f"## {section.title}", section.asked, f"```\n{section.command}\n```", _machine(one.document["machine"])]
    parts += [f"![{chart.words}](results/{chart.name}.svg)" for chart in section.charts]
    parts += [str(table) for table in section.tables]
    parts.append(str(_targets(one.document)))
    return "\n\n".join([*parts, *_notes(one)])


def _machine(machine: Mapping[str, Any]) -> str:
    """Say where, with what and when it was measured."""
    memory = f"{machine['memory_bytes'] / 2**30:.1f} GiB"
    java = f", Java {machine['java']}" if machine.get("java") else ""
    load = ", ".join(f"{load:g}" for load in machine["load_before"])
    return (
        f"Measured {machine['when'][:10]}: {machine['cpu']}, {machine['cores']} cores, {memory}, load before {load}; "
        f"Python {machine['python']}{java}, PySpark {machine['pyspark']}, PyArrow {machine['pyarrow']}, "
        f"Penstock {machine['penstock']}."
    )


def _targets(document: Document) -> Table:
    """List the targets."""
    rows = [
        (t["name"], f"{t['value']:,.2f}", t["target"], "yes" if t["met"] else "**no**") for t in document["targets"]
    ]
    return Table("", ("target", "value", "asked", "met"), tuple(rows), words=(0, 3))


def _notes(one: Measured) -> list[str]:
    """Give the notes; those that were written for another run say so."""
    head, _, text = one.notes.partition("\n")
    if not text.strip():
        return []
    written_for = head.removeprefix("run: ").strip()
    when = one.document["machine"]["when"]
    old = [] if written_for == when else [f"*These notes are on an earlier run, of {written_for[:10]}.*"]
    return [*old, text.strip()]
