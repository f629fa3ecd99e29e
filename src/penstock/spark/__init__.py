"""Everything that touches Spark."""
