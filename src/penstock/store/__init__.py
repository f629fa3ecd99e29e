"""What is kept: catalog changes, commits and partials, answers; files become visible whole."""
