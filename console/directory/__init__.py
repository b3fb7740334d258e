"""The pages of the directory: browsing, searching and lists of objects. `objects` has the pages of one object."""
