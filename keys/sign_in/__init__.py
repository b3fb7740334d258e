"""How people sign in: name and password, second factor, limits, sessions."""
