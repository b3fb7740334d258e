"""What happens to every request before and after its view. Who the caller is and what they may do is not known here."""
