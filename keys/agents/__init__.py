"""The sign-in of AI agents: what a person allows an agent, the OAuth 2.1 server, and identification by its tokens.

The endpoint that agents call is a surface (`gateway.surfaces.agent`), and the pipeline decides what they may do there.
"""
