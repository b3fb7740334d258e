"""Change requests: the inbox, decisions on one or many, comments, and forecasts of what they would do now."""
