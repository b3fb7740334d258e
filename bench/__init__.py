"""Benchmarks of the gateway against raw python-ldap, in turn, in one run: only ratios count on a shared machine."""
