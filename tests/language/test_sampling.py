"""WITH (shed = 'sample'): what is estimated from a sample, what its answers have besides, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.errors import LanguageError, Unsupported
from penstock.model.query import Query
from penstock.model.sampling import MOST_LEVEL, read_level, share_of

Bound = Callable[[str], Query]
W = "[RANGE 10 s SLIDE 1 s]"
SHED = "WITH (shed = 'sample')"


def test_a_query_that_sheds_has_a_bound_beside_every_estimate_and_the_share(bound: Bound) -> None:
    query = bound(f"SELECT symbol, count(*) AS n, avg(price) AS p FROM trades {W} GROUP BY symbol {SHED}")
    assert [output.name for output in query.outputs] == ["symbol", "n", "n_bound", "p", "p_bound", "sampled"]
    assert query.where == "`#weight` > 0"
    assert {aggregate.function for aggregate in query.aggregates} == {
        "sampled_count", "bound_of_count", "sampled_avg", "bound_of_avg", "sampled_share"
    }  # fmt: skip
    assert query == bound(query.text)


def test_having_and_order_by_are_judged_by_estimates(bound: Bound) -> None:
    query = bound(
        f"SELECT symbol, count(*) AS n FROM trades {W} GROUP BY symbol HAVING sum(volume) > 5 ORDER BY n DESC {SHED}"
    )
    assert query.having == "`a1` > 5"
    assert str(query.aggregates[1]) == "sampled_sum(`volume`, `#weight`)"
    assert [key.expression for key in query.order] == ["`a0`"]
    assert "volume" not in " ".join(output.name for output in query.outputs)


REFUSED = {
    **{f"{call} AS x": call for call in ("min(price)", "max(price)", "median(price)", "stddev_samp(price)")},
    "percentile(price, 0.5) AS x": "percentile(`price`, 0.5)",
    "top(3, symbol) AS x": "top(3, `symbol`)",
    "first(price) AS x": "first(`price`",
    "count(DISTINCT symbol) AS x": "count(DISTINCT `symbol`)",
    "sum(DISTINCT volume) AS x": "sum(DISTINCT `volume`)",
    "count(price, symbol) AS x": "count(`price`, `symbol`)",
    "approx_count_distinct(symbol) AS x": "approx_count_distinct(`symbol`)",
    "hll_sketch_agg(symbol) AS x": "hll_sketch_agg(`symbol`)",
    "collect_list(symbol) AS x": "collect_list(`symbol`)",
    "try_sum(volume) AS x": "try_sum(`volume`)",
    "sum(volume) / count(*) AS x": '"x"',
}


@pytest.mark.parametrize("selected", REFUSED)
def test_what_a_sample_does_not_tell_is_refused_by_name(bound: Bound, selected: str) -> None:
    text = f"SELECT {selected} FROM trades {W} {SHED}"
    with pytest.raises(Unsupported) as raised:
        bound(text)
    named = REFUSED[selected].replace("(price", "(`price`" if "`" not in REFUSED[selected] else "(price")
    assert raised.value.what.startswith(named)
    assert raised.value.detail
    assert raised.value.hint
    assert raised.value.place is not None
    assert text[slice(*raised.value.place)] == "shed = 'sample'"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (f"SELECT count(*) AS n FROM trades [ROWS 10 SLIDE 5] {SHED}", "a window of rows"),
        (f"SELECT count(*) AS n FROM trades [SESSION 10 s] {SHED}", "sessions"),
        (f"SELECT symbol FROM trades {SHED}", "option shed"),
        (f"SELECT count(*) AS n FROM trades {W} WITH (shed = 'sample', emit = 'change')", "beside emit = 'change'"),
        (
            f"SELECT count(*) AS n FROM trades {W} WITH (shed = 'sample', late = 'revise', revise_for = '1 min')",
            "beside late = 'revise'",
        ),
        (f"SELECT symbol, count(*) AS n FROM trades {W} GROUP BY symbol LIMIT 2 {SHED}", "LIMIT"),
        (f"SELECT count(*) AS n FROM trades {W} JOIN listing USING (symbol) {SHED}", "beside a join"),
    ],
)
def test_queries_whose_sample_would_mean_nothing_are_refused(bound: Bound, text: str, what: str) -> None:
    with pytest.raises(Unsupported, match=what):
        bound(text)


@pytest.mark.parametrize("name", ["sampled", "n_bound"])
def test_an_output_that_is_called_as_a_bound_is_refused(bound: Bound, name: str) -> None:
    with pytest.raises(LanguageError, match=f'two outputs are called "{name}"'):
        bound(f"SELECT count(*) AS n, sum(volume) AS {name} FROM trades {W} {SHED}")


def test_levels_are_written_as_shares() -> None:
    assert [read_level(share_of(level)) for level in range(MOST_LEVEL + 1)] == [*range(MOST_LEVEL + 1)]
    assert (read_level("1/1"), read_level(" 1 / 4 ")) == (0, 2)
    assert [read_level(share) for share in ("0.5", "25%", "12.5 %", "1.0", "100%", "2/4")] == [1, 2, 3, 0, 0, 1]
    for wrong in ("0", "2", "half", "", "1/0", "-1/2", "1e-1", "50%/2", "²", "200%"):
        with pytest.raises(LanguageError, match="cannot be sampled") as raised:
            read_level(wrong)
        assert raised.value.hint is None
    for wrong, near in (("1/3", "1/4"), ("1/2048", "1/1024"), ("0.9", "1"), ("49%", "1/2"), ("0.001", "1/1024")):
        with pytest.raises(LanguageError, match="cannot be sampled") as raised:
            read_level(wrong)
        assert raised.value.hint == f"The nearest share is {near}."
