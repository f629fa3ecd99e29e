"""How one number per row tells which queries' conditions take it."""
