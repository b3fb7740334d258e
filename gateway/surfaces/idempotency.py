"""Idempotency keys: the same request under the same key gets the first answer again (docs/api.md#idempotency).

The claim is a row with a unique constraint, so that of any number of parallel requests, in any number of processes,
exactly one is carried out.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import structlog
from django.conf import settings
from django.db import DatabaseError, IntegrityError, InterfaceError, connection, transaction
from django.http import HttpRequest, HttpResponse

from gateway.core import shared_clock
from gateway.core.call import Call
from gateway.core.errors import GatewayError, InvalidRequest
from gateway.models import IdempotencyRecord
from gateway.pipeline.replay import SECRET_MEMBERS, is_unsettled, those_that_did_something
from gateway.surfaces.leases import LEASE, renewal

_logger = structlog.stdlib.get_logger(__name__)

KEPT_FOR = timedelta(hours=24)

NOT_KEPT = frozenset({401, 403, 429})
KEPT_HEADERS = ("Content-Type", "Location", "ETag")


class KeyReused(GatewayError):
    status, code, title = 422, "Idempotency.KeyReused", "The idempotency key was used for another request"


class InProgress(GatewayError):
    status, code, title = 409, "Idempotency.InProgress", "The first request with this idempotency key still runs"


def key_of(request: HttpRequest) -> str | None:
    """The request's Idempotency-Key, None without one; raises InvalidRequest when it is not 1–255 printable ASCII."""
    key: str | None = request.META.get("HTTP_IDEMPOTENCY_KEY")
    if key is None or request.method not in ("POST", "PATCH", "DELETE"):
        return None
    if not re.fullmatch(r"[\x20-\x7e]{1,255}", key):
        detail = "must be 1 to 255 printable ASCII characters"
        raise InvalidRequest.naming(detail, parameter="Idempotency-Key", sentence=f"Idempotency-Key {detail}.")
    return key


def answer_once(request: HttpRequest, call: Call, key: str, respond: Callable[[Call], HttpResponse]) -> HttpResponse:
    """The kept answer, or the one that `respond` makes, which is kept if it is final.

    `respond` takes the call that says what was interrupted, and renders refusals too. The caller has authorised the
    request before. Raises KeyReused or InProgress.
    """
    kept = _claim(call, key, _fingerprint(request, call))
    if kept.status is not None:
        response = HttpResponse(kept.body, status=kept.status, headers=kept.headers)
        if "Content-Type" not in kept.headers:
            del response["Content-Type"]
        response["Idempotency-Replayed"] = "true"
        return response
    try:
        with renewal.of(kept.pk):
            response = respond(replace(call, interrupted=tuple(kept.request_ids[:-1])))
    except BaseException:
        _end(kept, None)
        raise
    _end(kept, None if response.status_code >= 500 else response)
    return response


def _end(claim: IdempotencyRecord, response: HttpResponse | None) -> None:
    """Keep the final answer, or leave the key to a retry when there is none (None).

    Never raises for the database: what was done is done, and the caller must hear so. The claim then runs out as that
    of a killed request.
    """
    for is_last_attempt in (False, True):
        try:
            _note_end(claim, response)
        except (DatabaseError, InterfaceError):
            if is_last_attempt:
                _logger.exception("an answer cannot be kept", key=claim.key)
            else:
                connection.close_if_unusable_or_obsolete()  # one that was cut is replaced for the second attempt
        else:
            return


def _note_end(claim: IdempotencyRecord, response: HttpResponse | None) -> None:
    """See `_end`.

    A request that failed may have done something all the same, so its retry has to know of it. What was committed as
    the database was lost is perhaps not seen yet, for PostgreSQL's standby has to have it first; of the attempts before
    this one all can be seen.
    """
    mine = IdempotencyRecord.objects.filter(pk=claim.pk, status=None)
    *earlier, last = claim.request_ids
    if response is None:
        done = those_that_did_something(claim.credential_id, earlier)
        known = [*(each for each in earlier if each in done), last]
        mine.update(lease_until=shared_clock.now(), request_ids=known)
    elif response.status_code not in NOT_KEPT:
        headers = {name: response[name] for name in KEPT_HEADERS if name in response}
        mine.update(status=response.status_code, headers=headers, body=_without_secrets(response.content))
    elif those_that_did_something(claim.credential_id, claim.request_ids):
        mine.update(lease_until=shared_clock.now())
    else:
        mine.delete()


def forget_old_answers() -> None:
    """Remove answers older than 24 hours."""
    IdempotencyRecord.objects.filter(created_at__lt=shared_clock.now() - KEPT_FOR).delete()


def _claim(call: Call, key: str, fingerprint: str) -> IdempotencyRecord:
    """A new claim, or the finished answer of an earlier one.

    That of a killed request is taken over when the operations log knows what became of it.
    """
    now, credential_id = shared_clock.now(), call.credential.unique_id
    mine = IdempotencyRecord(
        credential_id=credential_id,
        key=key,
        fingerprint=fingerprint,
        request_ids=[call.request_id],
        created_at=now,
        lease_until=now + LEASE,
    )
    for _ in range(3):  # the earlier claim may end between the refused insert and the look at it
        try:
            with transaction.atomic():
                mine.save(force_insert=True)
        except IntegrityError:
            earlier = IdempotencyRecord.objects.filter(credential_id=credential_id, key=key).first()
        else:
            return mine
        if earlier is None:
            continue
        is_old = earlier.created_at < now - KEPT_FOR
        if not is_old and earlier.fingerprint != fingerprint:
            raise KeyReused
        if not is_old and earlier.status is not None:
            return earlier
        if not is_old and (earlier.lease_until >= now or is_unsettled(credential_id, earlier.request_ids)):
            break
        mine.request_ids = [call.request_id] if is_old else [*earlier.request_ids, call.request_id]
        IdempotencyRecord.objects.filter(pk=earlier.pk, lease_until=earlier.lease_until).delete()
    raise InProgress


def _fingerprint(request: HttpRequest, call: Call) -> str:
    """What makes a request the same: the directory it is for, however it was chosen, is part of it.

    It is keyed from outside the database, for a password in the body must not be found by trying digests.
    """
    key = hmac.digest(settings.ENCRYPTION_KEYS[0].encode(), b"fingerprint of a request", "sha256")
    digest = hmac.new(key, digestmod=hashlib.sha256)
    directory = str(call.directory.id) if call.directory else ""
    for part in (directory, request.method or "", request.path, request.META.get("QUERY_STRING", "")):
        digest.update(part.encode() + b"\0")
    if call.if_match is not None:
        digest.update(" ".join(sorted(call.if_match)).encode() + b"\0")
    digest.update(request.body)
    return digest.hexdigest()


def _without_secrets(content: bytes) -> str:
    text = content.decode()
    if not any(f'"{name}"' in text for name in SECRET_MEMBERS):
        return text
    document: Any = json.loads(text)
    if isinstance(document, dict):
        document |= {name: None for name in SECRET_MEMBERS if name in document}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))
