"""The policies of a domain that apply to an object: password and lock-out policies, and inherited group policies."""
