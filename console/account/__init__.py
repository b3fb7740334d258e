"""A person's own pages: sign-in and sign-out, the account and its security, consent to agents."""
