"""The fault campaign: a loaded gateway whose processes and servers are killed, and a check of what it said."""
