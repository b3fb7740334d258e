"""Attributes, values and changes of the directory in words for people."""
