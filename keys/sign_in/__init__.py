"""How people sign in: user name and password, second factor, throttling of attempts, sessions."""
