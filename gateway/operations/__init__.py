"""The operations of the gateway itself, and those that ask the pipeline. Importing it declares them."""

from gateway.operations import forecasts, health

__all__ = ["forecasts", "health"]
