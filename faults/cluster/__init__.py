"""The fault campaign over many hosts, which are network namespaces on one machine."""
