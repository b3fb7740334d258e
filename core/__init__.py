"""The floor that everything stands on: operations, calls, errors, configuration, secrets. Imports no app of ours."""
