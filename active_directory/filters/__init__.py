"""Search filters as a syntax tree (RFC 4515), and the reader of those that people wrote."""
