"""Servers for tests, demonstration, benchmark and faults: directories, databases, the gateway's processes, networks.

Each module starts one kind, on its own sockets and loopback addresses. What their users do with them is elsewhere.
"""
