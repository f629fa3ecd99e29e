"""Compiles the few Java classes that Penstock brings, in the driver's JVM."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from typing import Any


@lru_cache(maxsize=8)
def java_class(jvm: Any, name: str) -> Any:
    """Compile a class from its source in ``data/``, once per JVM, with the compiler that comes with Spark."""
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook((resources.files("penstock") / "data" / f"{name}.java").read_text())
    return compiler.getClassLoader().loadClass(f"penstock.{name}")
