"""Sending recorded writes, and finding out whether a write was applied whose answer was lost.

What is written, and who may write it, is decided by `directory.changes`, the pipeline and the runs.
"""
