"""Any set of due windows, over many lanes, has together the answers and failures that each query has alone."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.share.plan import Strategy
from tests.cases import cases
from tests.kernel.test_answering import BIG, Compared
from tests.stream.made import MadeStream, row

KEYS = st.sampled_from(["", "k", "j", "k, j"])
OUTPUTS = st.sampled_from(["count(*) AS n", "sum(v) AS x, count(*) AS n", "min(v) AS a, max(v) AS b", "max(v) AS b"])
WINDOWS = st.sampled_from([(4, 2), (6, 2), (6, 3), (20, 5), (40, 20)])
HAVING = st.sampled_from(["", "", " HAVING count(*) > 1"])
ROWS = st.tuples(
    st.floats(0, 15), st.sampled_from([None, -1, 0, 5, 5, BIG]), st.sampled_from("abcd"), st.sampled_from([None, 0, 1])
)


@st.composite
def queries(draw: st.DrawFn) -> str:
    """Draw a query; few shapes, so that most have several lanes where each has a tree of its own."""
    keys, (length, slide) = draw(KEYS), draw(WINDOWS)
    listed, grouped = (f"{keys}, ", f" GROUP BY {keys}{draw(HAVING)}") if keys else ("", "")
    return f"SELECT {listed}{draw(OUTPUTS)} FROM s [RANGE {length} s SLIDE {slide} s]{grouped}"


@settings(max_examples=cases(12, soak=500), deadline=None)
@given(
    texts=st.lists(queries(), min_size=2, max_size=8),
    batches=st.lists(st.lists(ROWS, max_size=12), min_size=1, max_size=3),
    strategy=st.sampled_from(["unshared paired", "shared paired"]),
    kernel=st.sampled_from(["fast", "scan"]),
)
def test_lanes_answered_together_say_what_each_query_says_alone(
    texts: list[str], batches: list[list[tuple[float, int | None, str, int | None]]], strategy: Strategy, kernel: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        stream = MadeStream(Path(folder), strategy=strategy, kernel=kernel)
        stream.changes.create([stream.typed_text(text, f"q{number}") for number, text in enumerate(texts)])
        committer = stream.pipeline.committer
        compared = committer.answering = Compared(committer.synopsis, committer.answering.ask_spark)
        for number, rows in enumerate(batches):
            made = [{**row(number * 15 + second, k=k), "v": v, "j": j} for second, v, k, j in rows]
            stream.feed(row(number * 15), *made, row(number * 15 + 15))
        assert compared.windows > 0
        stream.catalog.close()
