"""`python -m directory_management_gateway`: the same as the command `gateway`."""

from directory_management_gateway.command import main

main()
