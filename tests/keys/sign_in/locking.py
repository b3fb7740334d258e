"""A domain that locks accounts, which the tests' own does not."""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from lab.directory import Directory, random_name

_MINUTES = 60 * 10**7
"""In hundreds of nanoseconds, as the directory keeps durations, with a minus sign."""


@contextmanager
def locking_policy(directory: Directory, account: UUID, *, threshold: int = 5) -> Iterator[None]:
    """A fine-grained policy of an account that locks it at so many failures within half an hour."""
    dn = f"CN={random_name('policy')},CN=Password Settings Container,CN=System,{directory.base_dn}"
    directory.add(
        dn,
        {
            "objectClass": "msDS-PasswordSettings",
            "msDS-PasswordSettingsPrecedence": "10",
            "msDS-PasswordReversibleEncryptionEnabled": "FALSE",
            "msDS-PasswordHistoryLength": "0",
            "msDS-PasswordComplexityEnabled": "FALSE",
            "msDS-MinimumPasswordLength": "0",
            "msDS-MinimumPasswordAge": "0",
            "msDS-MaximumPasswordAge": str(-(2**63)),
            "msDS-LockoutThreshold": str(threshold),
            "msDS-LockoutObservationWindow": str(-30 * _MINUTES),
            "msDS-LockoutDuration": str(-30 * _MINUTES),
            "msDS-PSOAppliesTo": directory.dn(account),
        },
    )
    try:
        yield
    finally:
        directory.delete(dn)
