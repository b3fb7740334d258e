"""Security descriptors as values: their binary form, their text (SDDL), rights and well-known identifiers."""
