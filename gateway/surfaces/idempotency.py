"""Idempotency keys: the same request under the same key gets the first answer again (docs/api.md#idempotency).

The claim is a row with a unique constraint, so that of any number of parallel requests, in any number of processes,
exactly one is carried out.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import DatabaseError, IntegrityError, InterfaceError, connection, transaction
from django.http import HttpResponse, HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response

from core.call import Call
from core.database import row_lease, shared_clock
from core.errors import GatewayError, InvalidRequest
from core.operation import Operation
from core.secrets.encryption import digests, key_of_digest, name_of_encryption_key
from core.shapes import encode_json, parse_guid
from gateway import pipeline
from gateway.models import IdempotencyRecord
from gateway.pipeline.replay import SECRET_MEMBERS, attempts_with_effects, is_unsettled
from gateway.pipeline.schedules import END_HEADER
from gateway.surfaces.problems import problem_response

_logger = structlog.stdlib.get_logger(__name__)

RETENTION = timedelta(hours=24)
LEASE = timedelta(seconds=30)
"""How long a claim holds without being renewed."""

UNKEPT_STATUSES = frozenset({401, 403, 429})
KEPT_HEADERS = ("Location", "ETag", END_HEADER)


class KeyReused(GatewayError):
    status, code, title = 422, "Idempotency.KeyReused", "The idempotency key was used for another request"


class InProgress(GatewayError):
    status, code, title = 409, "Idempotency.InProgress", "The first request with this idempotency key still runs"


def answer_once(
    operation: Operation,
    request: Request,
    call: Call,
    arguments: Mapping[str, str],
    respond: Callable[[Call], HttpResponseBase],
) -> HttpResponseBase:
    """Return the response of `respond`. With an Idempotency-Key, keep a final one and replay it to the same request.

    `respond` gets the call with its interrupted attempts. A kept answer shows what its caller may see now, and is
    recorded as a read. Raises InvalidRequest, KeyReused or InProgress, after the permission was checked.
    """
    if "HTTP_IDEMPOTENCY_KEY" not in request.META:
        return respond(call)
    pipeline.require_admission(operation, call, arguments)
    key = _key_of(request)
    if key is None:
        return respond(call)
    claim = _claim(call, key, _fingerprinted_content(request, call))
    if claim.status is not None:
        replayed = _replay(operation, request, call, arguments, claim)
        replayed["Idempotency-Replayed"] = "true"
        return replayed
    try:
        with row_lease.renewed(IdempotencyRecord.objects.filter(id=claim.pk, status=None), lasts=LEASE):
            try:
                attempt = replace(call, interrupted=_attempts_of(claim)[:-1], holds_key=partial(_still_holds, claim))
                response = respond(attempt)
            except GatewayError as refusal:  # a retry gets the same refusal
                response = problem_response(request, refusal)
    except BaseException:
        _end_claim(claim, None)
        raise
    _end_claim(claim, None if response.status_code >= 500 else response)
    return response


def _key_of(request: Request) -> str | None:
    """The request's Idempotency-Key, None for a read; raises InvalidRequest unless it is 1–255 printable ASCII."""
    key: str = request.META["HTTP_IDEMPOTENCY_KEY"]
    if request.method not in ("POST", "PATCH", "DELETE"):
        return None
    if not re.fullmatch(r"[\x20-\x7e]{1,255}", key):
        detail = "must be 1 to 255 printable ASCII characters"
        raise InvalidRequest.naming(detail, parameter="Idempotency-Key", sentence=f"Idempotency-Key {detail}.")
    return key


def _replay(
    operation: Operation, request: Request, call: Call, arguments: Mapping[str, str], claim: IdempotencyRecord
) -> HttpResponse:
    """Return the kept answer. A successful one is read anew if the caller is confined, or has other rights now."""
    status, body = claim.status or 500, json.loads(claim.body) if claim.body else None
    if status < 400:
        if call.scopes or claim.rights != _rights_digest(call):
            try:
                body = pipeline.refresh_answer(operation, call, arguments, body)
            except GatewayError as refusal:
                return problem_response(request, refusal)
        if body:
            pipeline.record_replayed(operation, call, arguments, body)
    media_type = claim.headers.get("Content-Type")
    headers = {name: value for name, value in claim.headers.items() if name != "Content-Type"}
    return Response(body, status=status, headers=headers, content_type=media_type)


def _rights_digest(call: Call) -> str:
    """A digest of the rights that decide what an answer may show."""
    rights = [sorted(call.permissions), call.scopes]
    return hashlib.sha256(json.dumps(rights, default=str).encode()).hexdigest()


def _attempts_of(claim: IdempotencyRecord) -> tuple[UUID, ...]:
    """The attempts under a key. Early releases stored the client's request ids, which need not be GUIDs."""
    return tuple(attempt for text in claim.call_ids if (attempt := parse_guid(text)) is not None)


def _still_holds(claim: IdempotencyRecord) -> bool:
    """Whether nobody has taken the claim over. Until the transaction ends nobody can: `_take_over` waits."""
    return IdempotencyRecord.objects.select_for_update().filter(pk=claim.pk).exists()


def _end_claim(claim: IdempotencyRecord, response: HttpResponseBase | None) -> None:
    """Store the final answer, or without one (None) free the key for a retry.

    Never raises for the database: the call was executed, and its caller must get the answer. The claim then expires
    like that of a killed request.
    """
    for is_last_attempt in (False, True):
        try:
            _store_end(claim, response)
        except (DatabaseError, InterfaceError):
            if is_last_attempt:
                _logger.exception("an answer cannot be kept", key=claim.key)
            else:
                connection.close_if_unusable_or_obsolete()  # the second attempt gets a new connection
        else:
            return


def _store_end(claim: IdempotencyRecord, response: HttpResponseBase | None) -> None:
    """Store the final answer, or release the claim for a retry; raises for the database.

    A failed request may have changed something all the same, so a retry has to know the attempt. The last attempt is
    always kept: what it committed while the connection was lost may not be visible yet, since a PostgreSQL standby has
    to confirm it first.
    """
    own = IdempotencyRecord.objects.filter(pk=claim.pk, status=None)
    *earlier, last = _attempts_of(claim)
    if response is None:
        done = attempts_with_effects(earlier)
        known = [*(each for each in earlier if each in done), last]
        own.update(lease_until=shared_clock.now(), call_ids=[str(each) for each in known])
    elif response.status_code not in UNKEPT_STATUSES:
        headers = {name: response[name] for name in KEPT_HEADERS if name in response}
        if body := _body_of(response):
            is_problem = response.status_code >= 400
            headers["Content-Type"] = response["Content-Type"] if is_problem else "application/json"
        own.update(status=response.status_code, headers=headers, body=body)
    elif attempts_with_effects(_attempts_of(claim)):
        own.update(lease_until=shared_clock.now())
    else:
        own.delete()


def forget_old_answers() -> None:
    """Delete answers older than 24 hours."""
    IdempotencyRecord.objects.filter(created_at__lt=shared_clock.now() - RETENTION).delete()


def count_by_key() -> Counter[str]:
    """The number of kept answers whose fingerprint needs each encryption key, by the key's name."""
    recent = IdempotencyRecord.objects.filter(created_at__gte=shared_clock.now() - RETENTION)
    return Counter(recent.values_list("encryption_key", flat=True))


def _claim(call: Call, key: str, content: bytes) -> IdempotencyRecord:
    """Return a new claim, or an earlier one with its answer; raises KeyReused or InProgress.

    The claim of a killed request is taken over once the operations log knows what the request did.
    """
    now, credential_id = shared_clock.now(), call.credential.unique_id
    own = IdempotencyRecord(
        credential_id=credential_id,
        key=key,
        fingerprint=digests(_FINGERPRINT, content)[0],
        encryption_key=name_of_encryption_key(settings.ENCRYPTION_KEYS[0]),
        rights=_rights_digest(call),
        call_ids=[str(call.call_id)],
        created_at=now,
        lease_until=now + LEASE,
    )
    for _ in range(3):  # an earlier claim may vanish between the refused insert and the query
        try:
            with transaction.atomic():
                own.save(force_insert=True)
        except IntegrityError:
            earlier = IdempotencyRecord.objects.filter(credential_id=credential_id, key=key).first()
        else:
            return own
        if earlier is None:
            continue
        is_old = earlier.created_at < now - RETENTION
        if not is_old and key_of_digest(earlier.fingerprint, _FINGERPRINT, content) is None:
            raise KeyReused
        is_free = is_old or _must_run_again(earlier, call)
        if not is_free and earlier.status is not None:
            return earlier
        if not is_free and earlier.lease_until >= now:
            break
        own.call_ids = [*([] if is_free else map(str, _attempts_of(earlier))), str(call.call_id)]
        if _take_over(earlier, own, is_free=is_free):
            return own
    raise InProgress


def _take_over(earlier: IdempotencyRecord, own: IdempotencyRecord, *, is_free: bool) -> bool:
    """Put a claim in the place of an earlier one; False if that has been renewed or answered, or may still be settled.

    A process that was suspended may record a change as it wakes up. It does so before the row is locked here, and the
    record is seen, or not at all (`_still_holds`).
    """
    with transaction.atomic():
        seen = IdempotencyRecord.objects.select_for_update().filter(
            pk=earlier.pk, lease_until=earlier.lease_until, status=earlier.status
        )
        if not seen.exists() or (not is_free and is_unsettled(_attempts_of(earlier))):
            return False
        seen.delete()
        own.save(force_insert=True)
    return True


def _must_run_again(earlier: IdempotencyRecord, call: Call) -> bool:
    """Whether to run a request again: it changed nothing, and its answer may not fit the caller's rights any more."""
    if earlier.status is None:
        return False
    has_other_rights = earlier.rights != _rights_digest(call)
    is_dry_run = earlier.body.startswith('{"dryRun":true')
    return (has_other_rights and earlier.status >= 400) or (is_dry_run and (has_other_rights or bool(call.scopes)))


def _fingerprinted_content(request: Request, call: Call) -> bytes:
    """The content that identical requests share, including the directory, however it was chosen."""
    directory = str(call.directory.id) if call.directory else ""
    parts = [directory, request.method or "", request.path, request.META.get("QUERY_STRING", "")]
    if call.if_match is not None:
        parts.append(" ".join(sorted(call.if_match)))
    if call.schedule is not None:
        parts.append(str(call.schedule))
    return b"\0".join([*(part.encode() for part in parts), request.body])


_FINGERPRINT = b"fingerprint of a request"


def _body_of(response: Any) -> str:
    """The body to store: members that are shown only once are null."""
    if not isinstance(response, Response):  # a problem
        content: str = response.content.decode()
        return content
    body = response.data
    if isinstance(body, dict):
        body = _without_secrets(body)
        if isinstance(results := body.get("results"), list):  # of a batch
            body["results"] = [_without_secrets(each) for each in results]
    return "" if body is None else encode_json(body).decode()


def _without_secrets(body: dict[str, Any]) -> dict[str, Any]:
    return body | {name: None for name in SECRET_MEMBERS if name in body}
