"""Parts of the groupings benchmark."""
