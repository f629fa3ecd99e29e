"""Keeps the catalog of streams, tables, queries and functions, and answers statements about it."""

from penstock.catalog.catalog import Catalog
from penstock.catalog.naming import Kind
from penstock.catalog.timeline import Control

__all__ = ["Catalog", "Control", "Kind"]
