"""The validator of names that people read."""

from django.core.exceptions import ValidationError

from core.text.names import refuse_label


def require_legible(text: str) -> None:
    """Refuse a name that people read if it has characters that nobody sees. Raises ValidationError."""
    if complaint := refuse_label(text):
        raise ValidationError(complaint)
