"""People: how they are told apart, whether they are still in their directory, and how their access ends.

How they sign in is in `keys.sign_in`.
"""
