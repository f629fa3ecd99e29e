"""Replays the trace of a state folder under policies, for ``penstock sim --trace``: live and replayed side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.cli.arguments import Until, paragraphs
from penstock.cli.locating import find_state
from penstock.cli.moments import about, clock_time
from penstock.cli.printing import say, say_json, spinning
from penstock.cli.replayed_text import names_of, number_text, queries_text, spread_text
from penstock.cli.replaying_operators import (
    USUAL_FOR_OPERATORS,
    ReplayedOperators,
    operators_dict,
    operators_text,
    replayed_operators,
)
from penstock.cli.reporting import columns_text
from penstock.model.counts import counted
from penstock.printable import shown

if TYPE_CHECKING:
    from penstock.schedule.policy import Policy
    from penstock.schedule.recorded import Recording
    from penstock.sim.replay_figures import AnswerFigures

USUAL: Final = ("FCFS", "HNR", "BSD", "EDF", "Hybrid")
Named = Callable[[str], "Policy"]
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
    """Replay a trace and print what comes of it: windows that were answered, and steps of expensive functions."""
    state = trace if (trace / "format").is_file() else find_state(trace, None).folder
    with spinning("replaying the trace"):
        operators = _operators(state, names, since, until)
        found = _found(state, names, since, until, beside=operators is not None)
    numbers = [*(found.queries if found else ()), *(operators.queries if operators else ())]
    known = names_of(state, numbers)
    if as_json:
        told = {"operators": operators_dict(operators, known)} if operators else {}
        say_json({"state": str(state), **(_as_dict(found, known) if found else {}), **told}, indent=2)
        return
    parts = [_as_text(found, known)] if found else []
    if operators:
        head, *rest = operators_text(operators, known)
        parts += [f"{shown(str(state))}: {head}", *rest]
    say(paragraphs(parts))


def _operators(state: Path, names: str | None, since: Until | None, until: Until | None) -> ReplayedOperators | None:
    """Replay what expensive functions did; None: the trace tells of none."""
    from penstock.schedule.live_policy import live_policy_named
    from penstock.schedule.operator_queues import operator_policy_named
    from penstock.store.operator_trace import read_operators

    recording = read_operators(state, instant_of(since), instant_of(until))
    if not recording.steps:
        return None
    asked = _asked(names, USUAL_FOR_OPERATORS, operator_policy_named, live_policy_named)
    return replayed_operators(recording, asked)


def _asked(names: str | None, usual: Sequence[str], named: Named, beside: Named | None) -> list[Policy]:
    """Find the policies that are asked for; those that only the work ``beside`` can run by are for that alone."""
    from penstock.errors import Unsupported

    found: list[Policy] = []
    for name in (names or ",".join(usual)).split(","):
        try:
            found.append(named(name.strip()))
        except Unsupported:
            if beside is None:
                raise
            beside(name.strip())
    return found


def _found(
    state: Path, names: str | None, since: Until | None, until: Until | None, *, beside: bool
) -> ReplayedTrace | None:
    """Read a trace and replay it: first under the policy that ran, so that it is seen how far it can be trusted.

    None: it tells of no windows, but of something ``beside`` them.
    """
    from penstock.errors import StateError
    from penstock.schedule.live_policy import live_policy_named
    from penstock.schedule.operator_queues import operator_policy_named
    from penstock.sim.recorded_costs import RecordedCosts
    from penstock.sim.replay import replay
    from penstock.sim.replay_figures import Agreement, live_figures, mean_response_by_query, replayed_figures
    from penstock.store.trace_files import read_trace

    asked = _asked(names, USUAL, live_policy_named, operator_policy_named if beside else None)
    try:
        recording = read_trace(state, instant_of(since), instant_of(until))
    except StateError:
        if beside:
            return None
        raise
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


def _as_dict(found: ReplayedTrace, names: dict[int, str]) -> dict[str, Any]:
    """Give programs all of it, times in seconds."""
    windows = found.recording.windows
    return {
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


def _as_text(found: ReplayedTrace, names: dict[int, str]) -> str:
    """Word all of it: what the trace holds, a line a policy, the queries that change most, and what is not known."""
    windows = found.recording.windows
    since, until = min(one.final_us for one in windows), max(one.ended_us for one in windows)
    answers = counted(found.figures[0].answers, "window", "windows")
    groups = counted(len({(one.run, one.group) for one in windows}), "group", "groups")
    head = f"{shown(str(found.state))}: {answers} in {groups}, from {clock_time(since)} on, {about(until - since)}"
    by_query = queries_text(found.queries, names, [one.name for one in found.figures[1:]])
    parts = [head, _policies_text(found.figures), by_query, "\n".join(_doubts(found))]
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
        times = *spread_text(response), number_text(slowdown.mean), number_text(slowdown.maximum)
        kept = "unknown" if one.kept is None else f"{one.kept:.0%}"
        rows.append([one.name, *times, number_text(late.mean), number_text(late.maximum), kept])
    return columns_text(names, rows)


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
