"""What the state of the log's chain means to people, for the home page and the log's own."""

from datetime import timedelta
from typing import Any, NamedTuple

from django.utils import timezone
from django.utils.dateparse import parse_datetime

from gateway.console.visit import Visit

SEALED_WITHIN = timedelta(minutes=1)
"""A worker seals every two seconds; records that wait for longer tell that there is none."""


class ChainState(NamedTuple):
    """`looks` is `good`, `warn` or `bad`, `says` the sentence to it; `chain` is the operation's answer."""

    looks: str
    says: str
    chain: dict[str, Any]


def chain_state(visit: Visit) -> ChainState | None:
    """How the chain is; None for whom the log is not shown to."""
    if not visit.may("operations.read-chain"):
        return None
    chain = visit.perform("operations.read-chain")
    return ChainState(*_judged(chain), chain)


def _judged(chain: dict[str, Any]) -> tuple[str, str]:
    verification, oldest = chain["lastVerification"], parse_datetime(chain["oldestUnsealedAt"] or "")
    if chain["refused"]:
        return "bad", f"Records that the gateway did not make: {chain['refused']}. They get no seal."
    if verification and verification["finding"]:
        return "bad", f"The log was tampered with: {verification['finding']}."
    if oldest and timezone.now() - oldest > SEALED_WITHIN:
        return "warn", "New records are not being sealed. A worker does that: is there one?"
    if chain["head"] is None:
        return "good", "Nothing has been recorded that could be sealed."
    return "good", "All records are sealed, but those of the last seconds."
