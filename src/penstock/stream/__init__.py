"""One stream at work: batches in, commits and answers out."""
