"""Who may review a waiting change, how they are notified of it, and how they decide it."""
