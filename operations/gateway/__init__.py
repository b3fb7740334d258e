"""Operations on the gateway itself."""
