"""Samba domain controllers: provisioning and running one, and writing into its database past LDAP."""
