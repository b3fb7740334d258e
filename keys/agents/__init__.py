"""The sign-in of AI agents: what a person lets one do, the OAuth 2.1 server that it asks, and what its tokens are.

The endpoint that agents work at is a surface; what they may do there, the pipeline decides, as for everybody.
"""
