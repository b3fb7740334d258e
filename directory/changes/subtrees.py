"""What is said of changes that a domain controller makes to an object with everything below it."""

LARGE = 500
"""Objects. A Samba domain of 20,000 took over 20 s to move or delete a unit with 1,000 objects (measured)."""


def time_warnings(below: int) -> tuple[str, ...]:
    """For a subtree so large that the answer takes a while."""
    if below < LARGE:
        return ()
    return ("That many objects may take the domain controller a minute, in which it makes no other. Do not repeat it.",)
