"""Shapes of directory objects: their kinds, the record, the bags of a write, the parts of accounts and groups."""
