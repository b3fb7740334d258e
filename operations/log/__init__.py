"""Operations on the operations log."""
