"""Passwords made by the gateway: random, readable on paper, and fit for any policy of Active Directory."""

import secrets

from directory.policies.password_policy import PasswordPolicy, contains_name

SHORTEST = 20
"""At 68 characters to choose from, 20 of them are 121 bits."""

_UPPER = "ABCDEFGHJKLMNPQRSTUVWXYZ"  # no I, O
_LOWER = "abcdefghijkmnpqrstuvwxyz"  # no l, o
_DIGITS = "23456789"  # no 0, 1
_SYMBOLS = "!#%+-:=?@_*&"  # none that shells, spreadsheets or quotation marks make something of inside a word
_KINDS = (_UPPER, _LOWER, _DIGITS, _SYMBOLS)
_CHARACTERS = "".join(_KINDS)


def generate_password(
    policy: PasswordPolicy | None, *, account_name: str | None, display_name: str | None, shortest: int = SHORTEST
) -> str:
    """A password of at least so many characters, of all four kinds of ASCII, without a part of the account's names.

    What does not fit is thrown away whole and drawn anew, so that every fitting password is as likely as any other.
    """
    length = max(shortest, policy.minimum_length if policy else 0)
    while True:
        password = "".join(secrets.choice(_CHARACTERS) for _ in range(length))
        has_all_kinds = all(any(character in kind for character in password) for kind in _KINDS)
        if has_all_kinds and not contains_name(password, account_name=account_name, display_name=display_name):
            return password
