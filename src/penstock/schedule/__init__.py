"""Decides which waiting work runs next; it has no clock and no Spark, and serves engine and simulator."""
