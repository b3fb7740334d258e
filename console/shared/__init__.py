"""What pages of several parts share: forms, lists, charts, downloads."""
