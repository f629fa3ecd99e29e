"""Replays the trace of a state folder under policies, for ``penstock sim --trace``: live and replayed side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.cli.arguments import Until, paragraphs
from penstock.cli.locating import find_state
from penstock.cli.moments import about, clock_time
from penstock.cli.printing import say, say_json, spinning
from penstock.cli.reporting import columns_text
from penstock.model.counts import counted
from penstock.printable import shown

if TYPE_CHECKING:
    from penstock.schedule.policy import Policy
    from penstock.schedule.recorded import Recording
    from penstock.sim.replay_figures import AnswerFigures, Spread

USUAL: Final = ("FCFS", "HNR", "BSD", "EDF", "Hybrid")
MOST_QUERIES: Final = 10  # that are listed in the text: those that a policy changes most
CLOSE: Final = (0.10, 0.15)  # how far mean and 95th percentile of a replay should be from what ran, at most


@dataclass(frozen=True, slots=True)
class ReplayedTrace:
    """What ran, and what would have under other policies."""

    state: Path
    recording: Recording
    figures: Sequence[AnswerFigures]  # live, then a policy each
    queries: dict[int, dict[str, float]]  # definition → live or policy → mean response
    ran: str | None  # the policy that ran, if it was one all the time
    apart: tuple[float | None, float | None]  # its replay from what ran: mean and 95th percentile of the response


def replay_trace(trace: Path, names: str | None, since: Until | None, until: Until | None, *, as_json: bool) -> None:
    """Replay a trace and print what comes of it."""
    state = trace if (trace / "format").is_file() else find_state(trace, None).folder
    with spinning("replaying the trace"):
        found = _found(state, names, since, until)
    if as_json:
        say_json(_as_dict(found), indent=2)
    else:
        say(_as_text(found))


def _found(state: Path, names: str | None, since: Until | None, until: Until | None) -> ReplayedTrace:
    """Read a trace and replay it: first under the policy that ran, so that it is seen how far it can be trusted."""
    from penstock.schedule.live_policy import live_policy_named
    from penstock.sim.recorded_costs import RecordedCosts
    from penstock.sim.replay import replay
    from penstock.sim.replay_figures import Agreement, live_figures, mean_response_by_query, replayed_figures
    from penstock.store.trace_files import read_trace

    asked = [live_policy_named(name.strip()) for name in (names or ",".join(USUAL)).split(",")]
    recording = read_trace(state, instant_of(since), instant_of(until))
    ran = {one.policy for one in recording.windows}
    policies: dict[str, Policy] = {one.name: one for one in [*map(live_policy_named, sorted(ran)), *asked]}
    costs, own = RecordedCosts.of(recording), next(iter(ran)) if len(ran) == 1 else None
    figures, queries = [live_figures(recording, costs)], {"live": mean_response_by_query(recording)}
    for name, policy in policies.items():
        replayed = replay(recording, policy, costs)
        figures.append(replayed_figures(recording, costs, replayed))
        queries[name] = mean_response_by_query(recording, replayed)
    by_query = {number: {name: some[number] for name, some in queries.items()} for number in queries["live"]}
    agreed = Agreement.of(figures[0].response, figures[1].response) if own else Agreement(None, None)
    return ReplayedTrace(state, recording, figures, by_query, own, (agreed.mean, agreed.p95))


def instant_of(when: Until | None) -> int | None:
    """Return the time that a limit names; a duration counts back from now."""
    from penstock.model.instants import wall_clock_us

    if when is None or when.seconds is None:
        return None if when is None else when.event_us
    return wall_clock_us() - round(when.seconds * 1e6)


def _names(found: ReplayedTrace) -> dict[int, str]:
    """Name the queries; of one that the catalog has forgotten, only the number is left."""
    from penstock.control.reading import read_catalog
    from penstock.errors import PenstockError

    try:
        catalog = read_catalog(found.state)
        return {number: catalog.name_of(number) for number in found.queries}
    except (PenstockError, KeyError):
        return {}


def _as_dict(found: ReplayedTrace) -> dict[str, Any]:
    """Give programs all of it, times in seconds."""
    names, windows = _names(found), found.recording.windows
    return {
        "state": str(found.state),
        "since_us": min(one.final_us for one in windows),
        "until_us": max(one.ended_us for one in windows),
        "groups": len({(one.run, one.group) for one in windows}),
        "torn": list(found.recording.torn),
        "ran": found.ran,
        "agreement": {"mean": found.apart[0], "p95": found.apart[1]},
        "live": found.figures[0].as_dict(),
        "policies": [one.as_dict() for one in found.figures[1:]],
        "queries": [
            {"query": names.get(number), "definition": number, "mean_response": some}
            for number, some in found.queries.items()
        ],
    }


def _as_text(found: ReplayedTrace) -> str:
    """Word all of it: what the trace holds, a line a policy, the queries that change most, and what is not known."""
    windows = found.recording.windows
    since, until = min(one.final_us for one in windows), max(one.ended_us for one in windows)
    answers = counted(found.figures[0].answers, "window", "windows")
    groups = counted(len({(one.run, one.group) for one in windows}), "group", "groups")
    head = f"{shown(str(found.state))}: {answers} in {groups}, from {clock_time(since)} on, {about(until - since)}"
    parts = [head, _policies_text(found.figures), _queries_text(found), "\n".join(_doubts(found))]
    return paragraphs([part for part in parts if part])


def _policies_text(figures: Sequence[AnswerFigures]) -> str:
    """Print a line for what ran and one for each policy; response and tardiness in seconds."""
    names = [
        "",
        "mean response",
        "p50",
        "p95",
        "max",
        "mean slowdown",
        "max",
        "mean tardiness",
        "max",
        "deadlines kept",
    ]
    rows = []
    for one in figures:
        response, slowdown, late = one.response, one.slowdown, one.tardiness
        times = *_spread(response), _number(slowdown.mean), _number(slowdown.maximum)
        kept = "unknown" if one.kept is None else f"{one.kept:.0%}"
        rows.append([one.name, *times, _number(late.mean), _number(late.maximum), kept])
    return columns_text(names, rows)


def _spread(measure: Spread) -> list[str]:
    """Write mean, median, 95th percentile and maximum."""
    return [_number(value) for value in (measure.mean, measure.p50, measure.p95, measure.maximum)]


def _number(value: float | None) -> str:
    """Write a number, or that it is not known."""
    return "unknown" if value is None else f"{value:,.3g}"


def _queries_text(found: ReplayedTrace) -> str:
    """Print the mean responses of the queries that a policy would change most."""

    def change(number: int) -> float:
        some = found.queries[number]
        return max(abs(value - some["live"]) for value in some.values())

    most = sorted(found.queries, key=lambda number: (-change(number), number))[:MOST_QUERIES]
    names, policies = _names(found), [one.name for one in found.figures[1:]]
    rows = [[names.get(n, f"#{n}"), *(_number(found.queries[n][name]) for name in ("live", *policies))] for n in most]
    head = [
        f"mean response of {'these queries' if len(most) < len(found.queries) else 'each query'}",
        "live",
        *policies,
    ]
    return columns_text(head, rows)


def _doubts(found: ReplayedTrace) -> list[str]:
    """Say how far the figures can be trusted."""
    said = []
    mean, p95 = found.apart
    if found.ran is None:
        said.append("several policies ran: no replay can be compared with what ran")
    elif mean is not None and (abs(mean) > CLOSE[0] or (p95 is not None and abs(p95) > CLOSE[1])):
        said.append(
            f"take care: under the policy that ran, the replayed mean response is {mean:+.0%} from the live one"
        )
    unknown = max(one.unknown for one in found.figures)
    if unknown >= 0.01:
        said.append(
            f"up to {unknown:.0%} of the windows run together, or apart, as never in the trace: costs are guessed"
        )
    if found.figures[0].answers < 20:
        said.append("there are too few windows for a 95th percentile")
    torn = ", ".join(map(shown, found.recording.torn))
    return [*said, f"skipped what is torn: {torn}"] if torn else said
