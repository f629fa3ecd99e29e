"""Holds the policy by which the engine chooses what runs next; it may be changed while streams run."""

from __future__ import annotations

from typing import Final

from penstock.errors import ProjectError, Unsupported, nearest
from penstock.schedule.ordering import is_live
from penstock.schedule.policy import Policy
from penstock.schedule.registry import POLICIES, policy_named

DEFAULT_POLICY: Final = "Hybrid"


class LivePolicy:
    """The policy of one engine."""

    def __init__(self, name: str = DEFAULT_POLICY) -> None:
        """Begin with a policy."""
        self._policy = live_policy_named(name)

    def current(self) -> Policy:
        """Return the policy that holds now."""
        return self._policy

    def change(self, name: str) -> None:
        """Choose by another policy from now on."""
        self._policy = live_policy_named(name)


def live_policy_named(name: str) -> Policy:
    """Find a policy that the engine can run by."""
    live = [known for known, one in POLICIES.items() if is_live(one)]
    names = ", ".join(live)
    try:
        policy = policy_named(name)
    except ProjectError as error:
        detail = f"policies for an engine: {names}"
        raise ProjectError(error.what, detail=detail, hint=nearest(name, live)) from None
    if not is_live(policy):
        what = f'policy "{policy.name}" orders the queues of operators, or knows the future: answers do neither'
        hint = "For expensive functions: penstock policy --operators. penstock sim runs all policies."
        raise Unsupported(what, detail=f"policies for an engine: {names}", hint=hint)
    return policy
