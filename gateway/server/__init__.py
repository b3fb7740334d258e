"""Between granian and Django: receives whole requests and gives them to threads. Decides nothing about a request."""
