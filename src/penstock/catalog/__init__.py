"""What has a name: streams, tables, queries and functions, durable, and the statements that ask about them."""

from penstock.catalog.catalog import Catalog, Kind

__all__ = ["Catalog", "Kind"]
