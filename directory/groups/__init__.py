"""Groups in groups: what is above an object, what is below a group, and what may be nested in what."""
