"""Numbers rows so that one number tells which queries' conditions take a row."""
