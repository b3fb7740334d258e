"""Text that people read: messages, invisible characters, names that look alike, words for identifiers."""
