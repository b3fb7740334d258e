"""The pages of the directory: browse, search, and lists of objects. The page of one object is in `objects`."""
