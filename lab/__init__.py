"""Servers for tests, demonstration, benchmark and faults: directories, databases, the gateway's processes, networks.

Each module starts one kind, on sockets and loopback addresses of its own. What is done with them is not here.
"""
