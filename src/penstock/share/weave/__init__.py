"""Queries and what work costs come in; which queries share a tree goes out (Guirguis et al. 2011)."""
