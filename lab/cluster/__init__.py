"""Many hosts on one machine: network namespaces joined by a bridge, and the servers that run on several of them."""
