"""Acting on several objects at once: chosen in a list, previewed one by one, done in steps, told of, taken back.

Each change is an operation of its own, with its own checks, limits and record; nothing here writes.
"""
