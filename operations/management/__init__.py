"""Commands that do what operations do: set-up, API keys, and applying a file of declarations."""
