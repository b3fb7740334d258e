"""Directories and the objects in them: what is read, proposed, protected and run there."""
