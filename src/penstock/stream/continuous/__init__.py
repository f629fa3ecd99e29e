"""Answers the continuous queries of a stream: each row that they take, once, with the batch that brought it."""
