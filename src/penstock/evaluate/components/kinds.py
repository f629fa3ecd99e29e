"""Lists the kinds of components; a new one is a class and a line here."""

from __future__ import annotations

from typing import Final

from penstock.evaluate.components.collected import CollectedValues
from penstock.evaluate.components.component import Component
from penstock.evaluate.components.extremes import BitAnd, BitOr, BitXor, FirstTime, Greatest, LastTime, Least
from penstock.evaluate.components.four_moments import FourMoments
from penstock.evaluate.components.moments import Moments, PairMoments
from penstock.evaluate.components.numbers import Count, ExactSum, FloatSum, SumPresence
from penstock.evaluate.components.ranked import FirstRow, GreatestBy, LastRow, LeastBy
from penstock.evaluate.components.sketches import FrequentItems, HllSketch, KllSketch, ThetaSketch
from penstock.evaluate.components.user_states import UserState
from penstock.evaluate.components.value_tables import FrequencyTable, WeightTable
from penstock.evaluate.components.weighted import ExcessMoment, ExcessWeights, RowWeights, WeightedFloatSum, WeightedSum

KINDS: Final[tuple[type[Component], ...]] = (
    Count,
    SumPresence,
    ExactSum,
    FloatSum,
    RowWeights,
    WeightedSum,
    WeightedFloatSum,
    ExcessWeights,
    ExcessMoment,
    Least,
    Greatest,
    BitAnd,
    BitOr,
    BitXor,
    FirstTime,
    LastTime,
    Moments,
    PairMoments,
    FourMoments,
    FrequencyTable,
    WeightTable,
    LeastBy,
    GreatestBy,
    FirstRow,
    LastRow,
    CollectedValues,
    HllSketch,
    ThetaSketch,
    KllSketch,
    FrequentItems,
    UserState,
)
