"""The first day of a gateway: its first administrator, and the steps that lead to the first integration."""
