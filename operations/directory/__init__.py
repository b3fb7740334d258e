"""Operations on directories and their objects, runs, saved filters and change templates."""
