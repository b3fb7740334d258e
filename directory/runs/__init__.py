"""Runs over the accounts of an organizational unit: asked for, assessed, carried out by a worker, and looked at."""
