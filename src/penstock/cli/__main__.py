"""``python -m penstock.cli`` does as ``penstock``."""

from penstock.cli.guard import main

main()
