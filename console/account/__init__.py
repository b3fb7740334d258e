"""A person's own pages: signing in and out, the account and how it is secured."""
