"""Which objects are protected, and why: who holds the domain, what it rests on, and the gateway's own accounts."""
