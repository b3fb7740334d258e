"""The pages of runs over the accounts of an organizational unit."""
