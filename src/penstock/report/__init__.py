"""Renders plans and figures as self-contained HTML: pages, charts and pictures of what queries share."""
