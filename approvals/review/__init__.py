"""Who looks at a waiting change, what they are told of it, and what they decide."""
