"""Posts answers to an address over HTTP."""
