"""The operations of the gateway itself, and those that ask the pipeline. Importing it declares them."""

from gateway.operations import forecasts, health, who_can

__all__ = ["forecasts", "health", "who_can"]
