"""How API keys come and go: issue, rotate, revoke, link. Used by the operations and by Django admin alike.

Who may do it is decided there; here is what it does, each step one conditional UPDATE.
"""

from datetime import timedelta

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from core.errors import Conflict
from core.text.messages import message
from directory.models import DirectoryConnection
from keys import credential_values
from keys.models import ApiKey, Link
from keys.people.account_status import require_present

MAX_GRACE = timedelta(days=30)


def issue(key: ApiKey, *, created_by_id: int | None) -> str:
    """Save a new key with a new secret; the value, which is not kept. Raises what `require_present` does.

    A command has no person who created it.
    """
    require_present(key.owner)
    value, secret = credential_values.make(credential_values.Prefix.API_KEY)
    key.lookup_id, key.digest, key.created_by_id = secret.lookup_id, secret.digest, created_by_id
    key.save(force_insert=True)
    return value


def rotate(key: ApiKey, *, grace: timedelta = timedelta(0)) -> str:
    """Give a key a new value; the one before stays valid for `grace`. Raises Conflict for a revoked key.

    And what `require_present` does of its owner.
    """
    require_present(key.owner)
    value, secret = credential_values.make(credential_values.Prefix.API_KEY)
    # A value of an earlier rotation that is still in its grace ends now: at most two are ever valid.
    rotated = ApiKey.objects.filter(pk=key.pk, revoked_at__isnull=True).update(
        previous_lookup_id=F("lookup_id") if grace else None,
        previous_digest=F("digest") if grace else "",
        previous_valid_until=timezone.now() + grace if grace else None,
        lookup_id=secret.lookup_id,
        digest=secret.digest,
    )
    if not rotated:
        raise Conflict(message("A revoked key cannot be rotated."))
    key.refresh_from_db()
    return value


def revoke(key: ApiKey, *, revoked_by_id: int | None) -> bool:
    """Revoke a key for good; False when it was already."""
    revoked = ApiKey.objects.filter(pk=key.pk, revoked_at__isnull=True).update(
        revoked_at=timezone.now(), revoked_by_id=revoked_by_id
    )
    key.refresh_from_db()
    return bool(revoked)


def link(key: ApiKey, connection: DirectoryConnection) -> Link:
    """Link a key to a directory; raises Conflict when it is already, or the key is revoked."""
    if key.revoked_at is not None:
        raise Conflict(message("A revoked key cannot be linked."))
    try:
        with transaction.atomic():
            return Link.objects.create(api_key=key, connection=connection)
    except IntegrityError:
        raise Conflict(message("The key is linked to this directory already.")) from None


def is_in_use(key: ApiKey) -> bool:
    """Whether an integration may be working with the key: it is valid and linked to a directory."""
    return key.state == "active" and key.links.exists()
