"""Runs over the accounts of an organizational unit: requests, assessment, and execution by a worker."""
