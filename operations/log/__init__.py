"""The operations on the operations log. Importing it declares them."""

from operations.log import operations

__all__ = ["operations"]
