"""Keys of the configuration that a test changes for itself."""

from typing import Any, Protocol


class Configure(Protocol):
    """The fixture `configure`: `configure("Approvals", ProtectedNeedsTwo=True)` holds until the test ends."""

    def __call__(self, section: str, /, **keys: Any) -> None: ...
