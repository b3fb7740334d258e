"""Commands that make what operations make: the first administrator and directory, and what a file declares."""
