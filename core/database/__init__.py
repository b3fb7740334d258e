"""What the database decides for all hosts: the clock, leases, and how sessions with it are kept."""
