"""What has a name: streams, tables, queries and functions, durable, and the statements that ask about them."""

from penstock.catalog.catalog import Catalog
from penstock.catalog.naming import Kind
from penstock.catalog.timeline import Control

__all__ = ["Catalog", "Control", "Kind"]
