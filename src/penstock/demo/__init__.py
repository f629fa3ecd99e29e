"""Runs the demo: many queries over a generated market, shown on the terminal, as files and as a page."""

from penstock.demo.run import run_demo

__all__ = ["run_demo"]
