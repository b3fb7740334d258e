"""Supervision: which changes wait for a person, who may decide them, and how they are carried out."""
