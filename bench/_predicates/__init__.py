"""What ``penstock bench predicates`` is made of: data, queries, the sides compared, counts and tables."""
