"""What Spark's threads and workers print when they are ended stays away from users; all else is passed on."""

from __future__ import annotations

import pytest

from penstock.spark.session.exit_noise import without_dying_words

JAVA = [
    b'Exception in thread "stream execution thread for [id = 1]" org.apache.spark.SparkException: awaitResult: \n',
    b"\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:70)\n",
    b"Caused by: org.apache.spark.rpc.RpcEnvStoppedException: RpcEnv already stopped.\n",
    b"\t... 8 more\n",
]
WORKER = [
    b"Traceback (most recent call last):\n",
    b'  File "/x/pyspark.zip/pyspark/daemon.py", line 264, in manager\n',
    b"    length = stream.read(4)\n",
    b"ConnectionResetError: [Errno 104] Connection reset by peer\n",
]
USERS = [b"Traceback (most recent call last):\n", b'  File "mine.py", line 1, in f\n', b"ValueError: mine\n"]


def test_stack_traces_of_an_ended_spark_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_SPARK_LOG", raising=False)
    lines = [b"one\n", *JAVA, b"two\n", *WORKER, *USERS, *JAVA, *WORKER, b"three\n"]
    assert list(without_dying_words(lines)) == [b"one\n", b"two\n", *USERS, b"three\n"]


def test_a_traceback_that_is_cut_off_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_SPARK_LOG", raising=False)
    assert list(without_dying_words(USERS[:2])) == USERS[:2]


def test_whoever_wants_to_hear_spark_hears_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_SPARK_LOG", "1")
    assert list(without_dying_words([*JAVA, *WORKER])) == [*JAVA, *WORKER]
