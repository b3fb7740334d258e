"""Network addresses: where callers may come from, and where the gateway itself may send requests."""
