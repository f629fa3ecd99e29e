"""Numbers of rows and queries in, a guided run on a generated market out: on the terminal, as files, as a page."""

from penstock.demo.run import run_demo

__all__ = ["run_demo"]
