"""Writes as values, and how they are sent, singly or many on their way at a time."""
