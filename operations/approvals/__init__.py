"""Operations on change requests."""
