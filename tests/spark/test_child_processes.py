"""Tests waiting for what child processes say."""

from __future__ import annotations

import os
import resource

import pytest

from penstock.spark.functions.child_processes import readable_within


def test_pipes_are_waited_for_also_beyond_a_thousand_open_files() -> None:
    if (most := resource.getrlimit(resource.RLIMIT_NOFILE)[0]) < 1_200:
        pytest.skip(f"a process may open {most} files only")
    many = [os.dup(0) for _ in range(1_100)]
    reader, writer = os.pipe()
    try:
        assert reader > 1_024
        assert not readable_within(reader, 0.01)
        os.write(writer, b"x")
        assert readable_within(reader, 1.0)
        os.read(reader, 1)
        os.close(writer)
        assert readable_within(reader, 1.0)  # its end
    finally:
        for one in (*many, reader):
            os.close(one)
