"""The operations of the gateway itself, and those that ask the pipeline. Importing it declares them."""

from gateway.operations import account_rights, ask_anew, forecasts, health, waiting_runs, who_can

__all__ = ["account_rights", "ask_anew", "forecasts", "health", "waiting_runs", "who_can"]
