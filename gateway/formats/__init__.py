"""Formats of dates for people, by language, where Django looks for them."""
