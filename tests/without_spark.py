"""Tells which tests need Spark, for `make quick`, and hides Java from all others."""

from __future__ import annotations

import os
from typing import Final

import pytest

OPTION: Final = "--without-spark"
NO_JAVA: Final = "/no-java-without-spark"


def needs_spark(item: pytest.Item) -> bool:
    """Tell whether a test asks for Spark: by a fixture, or the fixture of a fixture, or by its mark."""
    return "spark" in getattr(item, "fixturenames", ()) or item.get_closest_marker("starts_spark") is not None


def hide_java() -> None:
    """Let nothing start Spark from here on, in this process or in those that it starts."""
    os.environ["JAVA_HOME"] = NO_JAVA
