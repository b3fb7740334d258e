"""The one search: whatever somebody types, it finds the person, the object, the key, the record or the page meant."""
