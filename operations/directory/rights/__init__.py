"""What the gateway's account and its users may do in a directory. The modules of the resources declare these reads."""
