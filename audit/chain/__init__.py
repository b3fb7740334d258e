"""What makes a tampered log show: append-only tables, codes, seals, their head and their verification."""
