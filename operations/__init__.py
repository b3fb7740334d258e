"""Everything the gateway can do, each declared once, in folders by subject. `gateway.pipeline` calls the functions."""
