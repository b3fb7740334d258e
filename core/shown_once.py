"""Values that are shown once: kept from the POST that made them to the GET that shows them.

Reloading that page repeats nothing, and finds no value. A value belongs to one session, one page and one random token
in its address: no other tab, person or page gets it. It is encrypted, and deleted as soon as it is read.
"""

import hashlib
import json
import secrets
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlencode

from django.db import models
from django.http import HttpRequest

from core.database import shared_clock
from core.secrets.encryption import EncryptedTextField, UndecryptableSecret

LIFETIME: Final = timedelta(minutes=5)
_PARAMETER: Final = "shown"


class ShownOnce(models.Model):
    """A value on its way to the page that shows it; `digest` says which page of whom."""

    digest = models.CharField(max_length=64, primary_key=True)
    value = EncryptedTextField()
    expires_at = models.DateTimeField()

    class Meta:
        app_label = "gateway"
        verbose_name = "value shown once"
        indexes = [models.Index(fields=["expires_at"], name="shown_once_expiry")]
        default_permissions = ()

    def __str__(self) -> str:
        return self.digest


def keep(request: HttpRequest, page: str, value: Any) -> str:
    """Keep a value for the page at a path of this gateway; the address that shows it. It has to be JSON."""
    token = secrets.token_urlsafe(16)
    ShownOnce.objects.create(
        digest=_digest(request, page, token), value=json.dumps(value), expires_at=shared_clock.now() + LIFETIME
    )
    return f"{page}?{urlencode({_PARAMETER: token})}"


def is_expected(request: HttpRequest) -> bool:
    """Whether the address says that there is, or was, a value to show."""
    return request.method == "GET" and _PARAMETER in request.GET


def take(request: HttpRequest) -> Any:
    """The value that was kept for this page, which is deleted; None if there is none, or none any more.

    Ask for it last: a page that fails afterwards has lost it.
    """
    if not is_expected(request):
        return None
    digest = _digest(request, request.path, request.GET[_PARAMETER])
    kept = ShownOnce.objects.filter(digest=digest, expires_at__gt=shared_clock.now())
    try:
        found = kept.first()
    except UndecryptableSecret:
        return None
    # Of two requests for the same page one gets it.
    return json.loads(found.value) if found is not None and kept.delete()[0] else None


def forget_overdue() -> None:
    """Delete the values that nobody came for."""
    ShownOnce.objects.filter(expires_at__lte=shared_clock.now()).delete()


def _digest(request: HttpRequest, page: str, token: str) -> str:
    return hashlib.sha256(json.dumps([request.session.session_key, page, token]).encode()).hexdigest()
