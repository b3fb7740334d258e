"""Everything the gateway can do, declared once, by what it is about. How a call gets here is `gateway.pipeline`'s."""
