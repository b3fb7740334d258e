"""How strongly somebody has to have signed in, by the words of their provider (`acr`, `amr`), to decide changes."""

from typing import Final

from django.conf import settings

from core.call import Call
from core.errors import GatewayError

DECIDE: Final = "approvals.decide_change"


class SignInTooWeak(GatewayError):
    status, code, title = 403, "Auth.SignInTooWeak", "Deciding changes takes a stronger sign-in at the provider"


def require_assurance(call: Call) -> None:
    """Require of whoever decides what `SignIn:ApproversNeedAcr` and `ApproversNeedAmr` say; raises SignInTooWeak."""
    configured, credential = settings.CONFIGURATION.SignIn, call.credential
    if configured.ApproversNeedAcr and credential.acr not in configured.ApproversNeedAcr:
        raise SignInTooWeak
    if not {*configured.ApproversNeedAmr} <= {*credential.amr}:
        raise SignInTooWeak
