"""Which objects are protected, and why: who controls the domain, what it depends on, and the gateway's own accounts."""
