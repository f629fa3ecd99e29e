"""Runs the ``penstock`` command line as ``python -m penstock.cli``."""

from penstock.cli.guard import main

main()
