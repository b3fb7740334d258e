"""Benchmarks of the gateway against raw python-ldap, in turns: on a shared machine only ratios count."""
