"""The page of one directory object, its tabs, and what is done with it."""
