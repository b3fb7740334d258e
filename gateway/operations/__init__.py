"""The operations about the gateway itself. Importing it declares them."""

from gateway.operations import health

__all__ = ["health"]
