"""Replays the steps of expensive functions in a trace, for ``penstock sim --trace``: live and replayed side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.cli.moments import about, clock_time
from penstock.cli.replayed_text import number_text, queries_text, spread_text
from penstock.cli.reporting import columns_text
from penstock.model.byte_sizes import format_bytes
from penstock.model.counts import counted
from penstock.printable import shown

if TYPE_CHECKING:
    from penstock.schedule.policy import Policy
    from penstock.schedule.recorded_operators import OperatorRecording
    from penstock.sim.operator_figures import OperatorFigures

USUAL_FOR_OPERATORS: Final = ("FCFS", "HNR", "BSD", "Chain")
CLOSE_OPERATORS: Final = (0.10, 0.15)  # how far mean and 95th percentile of a replay should be from what ran, at most


@dataclass(frozen=True, slots=True)
class ReplayedOperators:
    """What workers did, and what they would have done under other policies."""

    recording: OperatorRecording
    figures: Sequence[OperatorFigures]  # live, then a policy each
    queries: dict[int, dict[str, float]]  # definition → live or policy → mean response
    ran: str | None  # the policy that ran, if it was one all the time
    apart: tuple[float | None, float | None]  # its replay from what ran: mean and 95th percentile of the response


def replayed_operators(recording: OperatorRecording, asked: Sequence[Policy]) -> ReplayedOperators:
    """Replay what workers did: first under the policy that ran, so that it is seen how far it can be trusted."""
    from penstock.schedule.operator_queues import operator_policy_named
    from penstock.sim.operator_costs import OperatorCosts
    from penstock.sim.operator_figures import mean_response_of_queues, operator_figures
    from penstock.sim.operator_replay import live_queues, replay_operators
    from penstock.sim.replay_figures import Agreement

    costs, live = OperatorCosts.of(recording), live_queues(recording)
    ran = sorted({one.policy for one in recording.steps})
    policies = {one.name: one for one in [*map(operator_policy_named, ran), *asked]}
    figures, queries = [operator_figures(live, costs)], {"live": mean_response_of_queues(live)}
    for name, policy in policies.items():
        replayed = replay_operators(recording, policy, costs)
        figures.append(operator_figures(replayed, costs))
        queries[name] = mean_response_of_queues(replayed)
    by_query = {number: {name: some[number] for name, some in queries.items()} for number in queries["live"]}
    own = ran[0] if len(ran) == 1 else None
    agreed = Agreement.of(figures[0].response, figures[1].response) if own else Agreement(None, None)
    return ReplayedOperators(recording, figures, by_query, own, (agreed.mean, agreed.p95))


def operators_dict(found: ReplayedOperators, names: dict[int, str]) -> dict[str, Any]:
    """Give programs all of it, times in seconds."""
    steps = found.recording.steps
    return {
        "since_us": min(one.since_us for one in steps),
        "until_us": max(one.ended_us for one in steps),
        "steps": len(steps),
        "rows": sum(one.rows for one in steps),
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


def operators_text(found: ReplayedOperators, names: dict[int, str]) -> list[str]:
    """Word all of it: what the trace holds, a line a policy, the queries that change most, and what is not known."""
    steps = found.recording.steps
    since, until = min(one.since_us for one in steps), max(one.ended_us for one in steps)
    rows = counted(sum(one.rows for one in steps), "row")
    of = f"{counted(len(steps), 'step')} of expensive functions over {rows}"
    head = f"{of}, from {clock_time(since)} on, {about(until - since)}"
    policies = [one.name for one in found.figures[1:]]
    by_query = queries_text(found.queries, names, policies) if found.queries else ""
    return [one for one in (head, _policies_text(found.figures), by_query, "\n".join(_doubts(found))) if one]


def _policies_text(figures: Sequence[OperatorFigures]) -> str:
    """Print a line for what ran and one for each policy; response and tardiness in seconds."""
    names = ["", "mean response", "p50", "p95", "max", "mean slowdown", "max", "mean tardiness", "deadlines kept"]
    rows = []
    for one in figures:
        slowdown = number_text(one.slowdown.mean), number_text(one.slowdown.maximum)
        kept = "unknown" if one.kept is None else f"{one.kept:.0%}"
        late = number_text(one.tardiness.mean)
        rows.append([one.name, *spread_text(one.response), *slowdown, late, kept, format_bytes(one.peak_bytes)])
    return columns_text([*names, "most in queues"], rows)


def _doubts(found: ReplayedOperators) -> list[str]:
    """Say how far the figures can be trusted."""
    said = []
    mean, p95 = found.apart
    if found.ran is None:
        said.append("several policies ran: no replay of functions can be compared with what ran")
    elif mean is not None and (abs(mean) > CLOSE_OPERATORS[0] or (p95 is not None and abs(p95) > CLOSE_OPERATORS[1])):
        said.append(
            f"take care: under the policy that ran, the replayed mean response is {mean:+.0%} from the live one"
        )
    torn = ", ".join(map(shown, found.recording.torn))
    return [*said, f"skipped what is torn: {torn}"] if torn else said
