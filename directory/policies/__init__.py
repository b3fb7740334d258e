"""The policies of a domain that decide about an object: for passwords and lock-out, and inherited group policies."""
