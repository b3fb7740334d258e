"""The operations on the gateway itself. Importing it declares them."""

from operations.gateway import health

__all__ = ["health"]
