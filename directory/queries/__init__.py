"""Reading one object and searching for many. Which objects a caller may see at all is decided in `directory.lookup`."""
