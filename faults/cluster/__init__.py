"""The fault campaign over many hosts: network namespaces on one machine, joined by a bridge, each host a namespace."""
