"""The name of a paper or of one of its figures comes in; the figure made again, with what it claims, goes out."""
