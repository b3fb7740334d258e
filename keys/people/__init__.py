"""People: local accounts, whether the others are still in their directory, and how their access ends.

They sign in with `keys.sign_in`.
"""
