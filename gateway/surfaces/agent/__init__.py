"""The agent endpoint `/mcp`: the operations of the registry as the tools of the Model Context Protocol.

It only translates: operations and the pipeline decide what a tool does, who may use it, whether a change is held and
what is recorded.
"""
