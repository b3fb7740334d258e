"""The pages of one directory object: its tabs, its forms, and actions on it."""
