"""The middleware around every view. It does not know who the caller is or what they may do."""
