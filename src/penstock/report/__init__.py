"""Values in, self-contained HTML out: pages, charts and the picture of who shares what."""
