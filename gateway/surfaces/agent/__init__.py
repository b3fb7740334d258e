"""The agent endpoint `/mcp`: the operations of the registry as the tools of the Model Context Protocol.

It translates and nothing more: what a tool does, who may do it, whether it is held and what is recorded of it is the
operations' and the pipeline's matter.
"""
