"""What plans have in common is made once, kept while it is used, and shared by threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from penstock.model.recent import Recent


def test_the_thing_not_used_for_longest_is_let_go_of() -> None:
    recent: Recent[str, int] = Recent(2)
    assert [recent.get_or(name, lambda place=place: place) for place, name in enumerate("aba")] == [0, 1, 0]  # type: ignore[misc]
    recent.keep("c", 3)
    assert (recent.get("a"), recent.get("b"), recent.get("c")) == (0, None, 3)


def test_threads_may_share_it() -> None:
    recent: Recent[int, int] = Recent(3)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda number: recent.get_or(number % 7, lambda: number % 7), range(20_000)))
    assert found == [number % 7 for number in range(20_000)]
