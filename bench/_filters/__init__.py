"""The parts of the benchmark of filters."""
