"""Changes of several objects at once: select in a list, preview each change, make them in steps, undo them together.

Each change is an operation of its own with its own checks, limits and log record; nothing here writes by itself.
"""
