"""What reveals tampering with the log: MACs of records, seals that chain them, the chain's head, verification."""
