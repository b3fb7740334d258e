"""Warnings about changes to an object and everything below it."""

from core.text.messages import Message, message

LARGE = 500
"""Objects. A Samba domain of 20,000 took over 20 s to move or delete a unit with 1,000 objects (measured)."""


def time_warnings(below: int) -> tuple[Message, ...]:
    """The warning that a domain controller may take long over so many objects."""
    if below < LARGE:
        return ()
    return (
        message(
            "This many objects can take the domain controller a minute, during which it makes no other change. "
            "Do not repeat the request."
        ),
    )
