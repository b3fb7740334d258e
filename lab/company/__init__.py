"""A company of any size that domains are filled with: its people as plain data, and what writes them into a domain."""

from pathlib import Path

FILL_DOMAIN = Path(__file__).with_name("fill_domain.py")
"""A program for the system's Python."""
