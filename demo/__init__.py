"""The demonstration: a real domain, its organisation and the gateway's processes; no part of the product."""
