"""Real servers for the tests: each module starts one kind, on sockets and loopback addresses of the tests' own."""
