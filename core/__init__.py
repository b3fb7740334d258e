"""The floor that everything stands on: operation and registry, call, errors, configuration. Imports nothing of ours."""
