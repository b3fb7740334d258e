"""The pages of the operations log."""
