"""Events of the log told to others: which there are, where they go, and how they are delivered."""
