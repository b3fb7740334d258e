"""A company of any size for filling domains: its people as plain data, and a program that writes them."""

from pathlib import Path

FILL_DOMAIN = Path(__file__).with_name("fill_domain.py")
"""The program, which runs under the system's Python."""
