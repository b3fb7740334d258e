"""Proposals to change objects, one module for each verb: they read the directory, judge, and write nothing.

The write itself is the pipeline's, runs are in `directory.runs`.
"""
