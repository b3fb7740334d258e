"""What tests share besides the servers of `lab`: the cast of accounts and keys, and what they compare and wait for."""
