"""Who aggregates a batch depends on what is asked for, on the batch before, and on how many cores Spark has."""

from __future__ import annotations

from penstock.share.layout import Layout, lay_out
from penstock.share.plan import plan_queries
from penstock.stream.aggregation_choice import AggregationChoice, LastBatch
from tests.stream.made import definition

PLAIN = "SELECT sum(v) AS x FROM s [RANGE 10 s SLIDE 10 s]"
CHOSEN = [f"{PLAIN} WHERE j = {number}" for number in range(3)]


def laid_out(*texts: str) -> Layout:
    definitions = [definition(text, number, f"q{number}") for number, text in enumerate(texts, 1)]
    return lay_out(plan_queries(definitions, "shared paired", 1), "ts")


def sends(layout: Layout, cores: int, *, rows: int, sent: bool = False) -> bool:
    return AggregationChoice().sends_rows(layout, None, LastBatch(rows, 10, rows_sent=sent), cores)


def test_the_fewer_cores_spark_has_the_larger_batches_the_driver_aggregates() -> None:
    chosen = laid_out(*CHOSEN)
    assert sends(chosen, 2, rows=1_000_000)
    assert not sends(chosen, 2, rows=1_000_001)
    assert sends(chosen, 64, rows=50_000)
    assert not sends(chosen, 64, rows=50_001)


def test_whoever_aggregated_the_batch_before_goes_on_with_twice_as_many_rows() -> None:
    chosen = laid_out(*CHOSEN)
    assert sends(chosen, 64, rows=100_000, sent=True)
    assert not sends(chosen, 64, rows=100_001, sent=True)


def test_one_plain_aggregation_is_left_to_spark() -> None:
    assert not sends(laid_out(PLAIN), 1, rows=10)
