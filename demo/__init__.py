"""The demonstration: a real domain, its organisation and the gateway's processes. It is not part of the product."""
