"""Finds a scheduling policy by its name; a new policy is a line in this list."""

from __future__ import annotations

import re
from typing import Final

from penstock.errors import ProjectError, nearest
from penstock.schedule.policies.brt import BRT
from penstock.schedule.policies.bsd import BSD
from penstock.schedule.policies.chain import CHAIN, CHAIN_FLUSH, CHAIN_FLUSH_HEADS, mixed
from penstock.schedule.policies.edf import EDF
from penstock.schedule.policies.fas import FAS, fas
from penstock.schedule.policies.fcfs import FCFS, FIFO
from penstock.schedule.policies.greedy import GREEDY
from penstock.schedule.policies.hnr import HNR
from penstock.schedule.policies.hnr_oracle import HNR_O
from penstock.schedule.policies.hr import HR, RB
from penstock.schedule.policies.hr_oracle import HR_O
from penstock.schedule.policies.hybrid import HYBRID
from penstock.schedule.policies.lsf import LSF
from penstock.schedule.policies.rr import RR
from penstock.schedule.policies.srpt import SRPT
from penstock.schedule.policy import Policy

_LISTED: Final = (
    RR,
    FCFS,
    FIFO,
    SRPT,
    LSF,
    RB,
    HR,
    HNR,
    BRT,
    BSD,
    EDF,
    HYBRID,
    FAS,
    GREEDY,
    CHAIN,
    CHAIN_FLUSH,
    CHAIN_FLUSH_HEADS,
    HR_O,
    HNR_O,
)
POLICIES: Final[dict[str, Policy]] = {policy.name: policy for policy in _LISTED}
FAMILIES: Final = {"FAS-MCQ": fas, "Mixed": mixed}
_KNOB: Final = re.compile(r"(?P<family>[A-Za-z-]+)\((?P<knob>[0-9.eE+-]+)\)")


def policy_named(name: str) -> Policy:
    """Find a policy by name, ``Mixed(0.001)`` and ``FAS-MCQ(0.25)`` included."""
    known = {policy.name.lower(): policy for policy in POLICIES.values()}
    if name.lower() in known:
        return known[name.lower()]
    families = {family.lower(): make for family, make in FAMILIES.items()}
    match = _KNOB.fullmatch(name)
    if match is not None and match["family"].lower() in families:
        return families[match["family"].lower()](float(match["knob"]))
    names = [*POLICIES] + [f"{family}(number)" for family in FAMILIES]
    raise ProjectError(
        f'there is no policy "{name}"', detail=f"policies: {', '.join(names)}", hint=nearest(name, names)
    )
