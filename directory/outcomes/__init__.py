"""What became of a write whose answer was lost: whether it was applied, and whose it was."""
