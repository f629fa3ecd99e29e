"""Decides by cost which queries share a tree: Weave Share (Guirguis et al. 2011)."""
