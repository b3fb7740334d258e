"""What the gateway and those who use it may do in a directory, looked at as a whole; declared by the resources."""
