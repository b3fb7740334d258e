"""The one place where e-mail is made: characters that nobody sees are marked in all of it."""

from django.core.mail import EmailMessage

from core.text.invisible import text_for_people

_SUBJECT_LENGTH = 200


def make_email(address: str, *, subject: str, body: str, about: str) -> EmailMessage:
    """A message to one person; `about` is for their mail filters, in the header X-Directory-Gateway."""
    return EmailMessage(
        subject=text_for_people(f"[Directory gateway] {subject}"[:_SUBJECT_LENGTH]),
        body=text_for_people(body),
        to=[address],
        # RFC 3834: suppresses out-of-office answers.
        headers={"Auto-Submitted": "auto-generated", "X-Directory-Gateway": about},
    )
