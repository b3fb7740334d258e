"""Values that are shown once, such as a new key: kept from the POST that makes one to the GET that shows it.

Reloading the page repeats nothing and finds no value. A value belongs to one session, one page and one random token in
its URL: no other tab, person or page gets it. It is encrypted, and deleted when it is read.
"""

import hashlib
import json
import secrets
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.db import models
from django.http import HttpRequest

from core.database import shared_clock
from core.secrets.encryption import EncryptedTextField, UndecryptableSecret

LIFETIME = timedelta(minutes=5)
_PARAMETER = "shown"


class ShownOnce(models.Model):
    """A value on its way to the page that shows it; `digest` identifies session, page and token."""

    digest = models.CharField(max_length=64, primary_key=True)
    value = EncryptedTextField()
    expires_at = models.DateTimeField()

    class Meta:
        app_label = "gateway"
        verbose_name = "value shown once"
        indexes = [models.Index(fields=["expires_at"], name="shown_once_expiry")]
        default_permissions = ()


def keep(request: HttpRequest, page: str, value: Any) -> str:
    """Keep a JSON value for the page at a path of this gateway; return the URL that shows it."""
    token = secrets.token_urlsafe(16)
    ShownOnce.objects.create(
        digest=_digest(request, page, token), value=json.dumps(value), expires_at=shared_clock.now() + LIFETIME
    )
    return f"{page}?{urlencode({_PARAMETER: token})}"


def is_expected(request: HttpRequest) -> bool:
    """Whether the URL carries the token of a value, which may have been shown already."""
    return request.method == "GET" and _PARAMETER in request.GET


def take(request: HttpRequest) -> Any:
    """Return and delete the value kept for this page; None if there is none, or no longer.

    Take it last: a page that fails afterwards has lost it.
    """
    if not is_expected(request):
        return None
    digest = _digest(request, request.path, request.GET[_PARAMETER])
    kept = ShownOnce.objects.filter(digest=digest, expires_at__gt=shared_clock.now())
    try:
        row = kept.first()
    except UndecryptableSecret:
        return None
    # Two requests for the same page may both have read it: only the one that deletes it shows it.
    return json.loads(row.value) if row is not None and kept.delete()[0] else None


def delete_expired() -> None:
    """Delete the values that nobody fetched in time."""
    ShownOnce.objects.filter(expires_at__lte=shared_clock.now()).delete()


def _digest(request: HttpRequest, page: str, token: str) -> str:
    return hashlib.sha256(json.dumps([request.session.session_key, page, token]).encode()).hexdigest()
