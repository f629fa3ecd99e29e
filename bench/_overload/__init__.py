"""The parts of the overload benchmark: expensive functions behind queues, and rows that come too fast."""
