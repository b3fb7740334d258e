"""What people call objects and places, from their distinguished names."""

from directory.shapes.names import common_name, parsed, place

__all__ = ["common_name", "parsed", "place"]
