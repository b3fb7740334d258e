"""Text that people read: characters that nobody sees, names that look alike, words for identifiers."""
