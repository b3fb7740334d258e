"""The declared operations on directory objects and connections, one module per noun."""
