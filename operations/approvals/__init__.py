"""Operations on change requests, and on rules for memberships."""
