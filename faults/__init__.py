"""The fault campaign: kills processes and servers of a gateway under load, and checks all that it said."""
