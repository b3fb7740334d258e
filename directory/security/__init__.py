"""Security descriptors for people: access control, delegations and principals by name.

The descriptors themselves are read and written in `active_directory.descriptor`.
"""
