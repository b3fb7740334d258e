"""Describing attributes, values and changes of the directory to people."""
