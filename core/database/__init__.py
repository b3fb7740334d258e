"""Database helpers: rows of our own tables for operations, the shared clock, leases on rows, PostgreSQL sessions."""
