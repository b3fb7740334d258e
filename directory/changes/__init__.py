"""Proposals to change objects. They read the directory and check; the pipeline writes.

Runs over many accounts are in `directory.runs`.
"""
