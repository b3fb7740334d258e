"""What the state of the log's chain means to people, for the home page and the log's own."""

from datetime import timedelta
from typing import Any, NamedTuple

from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _

from audit.chain.verification import KEY_IS_MISSING
from console.page_context import PageContext
from core.text.messages import translated
from core.text.vocabulary import capitalized

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
        return "bad", _("Records are missing"), f"{capitalized(translated(chain['missing']))}."
    if chain["refused"]:
        text = _("Records that the gateway did not make: {count}. They get no seal.")
        return "bad", _("Tampered with"), text.format(count=chain["refused"])
    if verification and verification["finding"]:
        is_unknown = verification["finding"].startswith(KEY_IS_MISSING)
        verdict = _("Cannot be verified") if is_unknown else _("Tampered with")
        return (
            "bad",
            verdict,
            _("The last verification found: {finding}.").format(finding=translated(verification["finding"])),
        )
    if oldest and timezone.now() - oldest > SEALED_WITHIN:
        return "warn", _("Not sealed"), _("New records are not being sealed. A worker does that: is there one?")
    if chain["head"] is None:
        return "good", _("Empty"), _("There is no seal yet: they are made as soon as there is something to seal.")
    return "good", _("Sealed"), _("All records are sealed, but those of the last seconds.")
