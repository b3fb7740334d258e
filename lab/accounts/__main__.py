"""`python -m lab.accounts`, with the gateway's settings: reads a request, adds accounts, writes their credentials."""

import json
import sys

import django

django.setup()

from lab.accounts.rows import add_accounts  # noqa: E402 - after Django is set up

json.dump(add_accounts(json.load(sys.stdin)), sys.stdout)
