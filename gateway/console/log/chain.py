"""What the state of the log's chain means to people, for the home page and the log's own."""

from datetime import timedelta
from typing import Any, NamedTuple

from django.utils import timezone
from django.utils.dateparse import parse_datetime

from audit.chain.verification import KEY_IS_MISSING
from gateway.console.page_context import PageContext

SEALED_WITHIN = timedelta(minutes=1)
"""A worker seals every two seconds; records that wait for longer tell that there is none."""


class ChainState(NamedTuple):
    """`looks` is `good`, `warn` or `bad`, `word` and `says` tell it; `chain` is the operation's answer."""

    looks: str
    word: str
    says: str
    chain: dict[str, Any]


def chain_state(page: PageContext) -> ChainState | None:
    """How the chain is; None for whom the log is not shown to."""
    if not page.may("operations.read-chain"):
        return None
    chain = page.perform("operations.read-chain")
    return ChainState(*_judged(chain), chain)


def _judged(chain: dict[str, Any]) -> tuple[str, str, str]:
    verification, oldest = chain["lastVerification"], parse_datetime(chain["oldestUnsealedAt"] or "")
    if chain["missing"]:
        return "bad", "Records are missing", f"{chain['missing'][0].upper()}{chain['missing'][1:]}."
    if chain["refused"]:
        return "bad", "Tampered with", f"Records that the gateway did not make: {chain['refused']}. They get no seal."
    if verification and verification["finding"]:
        verdict = "Cannot be verified" if verification["finding"].startswith(KEY_IS_MISSING) else "Tampered with"
        return "bad", verdict, f"The last verification found: {verification['finding']}."
    if oldest and timezone.now() - oldest > SEALED_WITHIN:
        return "warn", "Not sealed", "New records are not being sealed. A worker does that: is there one?"
    if chain["head"] is None:
        return "good", "Empty", "There is no seal yet: they are made as soon as there is something to seal."
    return "good", "Sealed", "All records are sealed, but those of the last seconds."
