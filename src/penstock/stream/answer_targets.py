"""Hands a stream's answers to its sinks, and knows which streams are made of them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from penstock.model.schema import Stream
from penstock.sinks.row_delivery import RowLog
from penstock.sinks.stream_delivery import StreamDelivery


class Follower(Protocol):
    """A stream that another one feeds."""

    stream: Stream
    followed: int  # the last commit of the other stream that it has taken

    @property
    def until_us(self) -> int | None:
        """Return the time before which it needs no rows that wait; None: it needs all."""

    def follow(self) -> None:
        """Take what is new."""

    def hold_back(self, runner: Any, stopping: threading.Event) -> None:
        """Let a stream that feeds it wait before its next batch, where it is too far ahead of another one."""


class AnswerTargets:
    """All that takes the answers of one stream."""

    def __init__(self, delivery: StreamDelivery) -> None:
        """Begin with the sinks alone; streams that are fed add themselves when they are opened."""
        self.delivery = delivery
        self.followers: list[Follower] = []

    def deliver(self, number: int, tables: Sequence[pa.Table]) -> None:
        """Leave answers for the sinks; followers read them from the log."""
        self.delivery.answers.deliver(number, tables)

    def keep_rows(self, log: RowLog, *, there: bool) -> None:
        """Let the sinks take rows of continuous queries from a log from now on."""
        self.delivery.keep_rows(log, there=there)

    def deliver_rows(self, number: int) -> None:
        """Leave the rows of a commit for the sinks; followers read them from the log."""
        self.delivery.deliver_rows(number)

    def catch_up(self) -> None:
        """Let the sinks be given what they lack of the log."""
        self.delivery.catch_up()

    def look_after_sinks(self) -> None:
        """Let the sinks be tried that have failed, and answers that they have kept back be made visible in time."""
        self.delivery.look_after()

    def taken(self) -> int:
        """Return the number of the last answers that every sink and every stream made of them has."""
        return min([self.delivery.answers.taken(), *(follower.followed for follower in self.followers)])

    def rows_taken(self) -> int:
        """Return the last commit whose rows every sink and every stream made of them has."""
        return min([self.delivery.rows_taken(), *(follower.followed for follower in self.followers)])
