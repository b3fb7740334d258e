"""Change requests: finding, deciding, commenting on them, many at once, and what they would do now."""
