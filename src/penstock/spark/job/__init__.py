"""The one Spark job of a batch: from rows to partials."""
