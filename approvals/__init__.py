"""Supervision: which changes wait for a person, who may decide, and what becomes of them."""
