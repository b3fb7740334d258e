"""What several tests of verification need."""

import pytest

from audit.chain import verified_ranges


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges of two seals, kept after each."""
    monkeypatch.setattr(verified_ranges, "SEALS_OF_A_RANGE", 2)
    monkeypatch.setattr(verified_ranges, "_KEEP_SECONDS", -1.0)
