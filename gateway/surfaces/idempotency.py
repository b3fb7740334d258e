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
from typing import Any, Final
from uuid import UUID

import structlog
from django.conf import settings
from django.db import DatabaseError, IntegrityError, InterfaceError, connection, transaction
from django.http import HttpResponse, HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response

from core.call import Call
from core.database import shared_clock
from core.errors import GatewayError, InvalidRequest
from core.operation import Operation
from core.secrets.digests import digests, is_digest, name_of_encryption_key
from core.shapes import parse_guid
from core.text.json_text import json_of
from gateway import pipeline
from gateway.models import IdempotencyRecord
from gateway.pipeline.replay import SECRET_MEMBERS, is_unsettled, with_effects
from gateway.surfaces.idempotency_heartbeat import LEASE, renewed
from gateway.surfaces.problems import problem_response

_logger = structlog.stdlib.get_logger(__name__)

KEPT_FOR = timedelta(hours=24)

NOT_KEPT = frozenset({401, 403, 429})
KEPT_HEADERS = ("Location", "ETag")


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
    """What `respond` makes of the call. With an Idempotency-Key it is kept if it is final, and given again.

    `respond` gets the call that says what was interrupted. A kept answer shows what its caller may see of it now, and
    is recorded as a read. Raises InvalidRequest, KeyReused or InProgress, after permission was looked at.
    """
    if "HTTP_IDEMPOTENCY_KEY" not in request.META:
        return respond(call)
    pipeline.require_admission(operation, call, arguments)
    key = _key_of(request)
    if key is None:
        return respond(call)
    kept = _claim(call, key, _content_of(request, call))
    if kept.status is not None:
        replayed = _replay(operation, request, call, arguments, kept)
        replayed["Idempotency-Replayed"] = "true"
        return replayed
    try:
        with renewed(kept.pk):
            try:
                response = respond(replace(call, interrupted=_attempts_of(kept)[:-1]))
            except GatewayError as refusal:  # a retry gets the same refusal
                response = problem_response(request, refusal)
    except BaseException:
        _end(kept, None)
        raise
    _end(kept, None if response.status_code >= 500 else response)
    return response


def _key_of(request: Request) -> str | None:
    """The request's Idempotency-Key, None for a read; raises InvalidRequest when it is not 1–255 printable ASCII."""
    key: str = request.META["HTTP_IDEMPOTENCY_KEY"]
    if request.method not in ("POST", "PATCH", "DELETE"):
        return None
    if not re.fullmatch(r"[\x20-\x7e]{1,255}", key):
        detail = "must be 1 to 255 printable ASCII characters"
        raise InvalidRequest.naming(detail, parameter="Idempotency-Key", sentence=f"Idempotency-Key {detail}.")
    return key


def _replay(
    operation: Operation, request: Request, call: Call, arguments: Mapping[str, str], kept: IdempotencyRecord
) -> HttpResponse:
    """The kept answer; a successful one is looked at anew for who is confined, or has other rights than then."""
    status, body = kept.status or 500, json.loads(kept.body) if kept.body else None
    if status < 400:
        if call.scopes or kept.rights != _rights_of(call):
            try:
                body = pipeline.review(operation, call, arguments, body)
            except GatewayError as refusal:
                return problem_response(request, refusal)
        if body:
            pipeline.record_replayed(operation, call, arguments, body)
    media_type = kept.headers.get("Content-Type")
    headers = {name: value for name, value in kept.headers.items() if name != "Content-Type"}
    return Response(body, status=status, headers=headers, content_type=media_type)


def _rights_of(call: Call) -> str:
    """What decides what an answer may show, as a digest."""
    rights = [sorted(call.permissions), call.scopes]
    return hashlib.sha256(json.dumps(rights, default=str).encode()).hexdigest()


def _attempts_of(claim: IdempotencyRecord) -> tuple[UUID, ...]:
    """The attempts under a key. What a process of an earlier release noted is the client's word, and nobody's id."""
    return tuple(attempt for text in claim.call_ids if (attempt := parse_guid(text)) is not None)


def _end(claim: IdempotencyRecord, response: HttpResponseBase | None) -> None:
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


def _note_end(claim: IdempotencyRecord, response: HttpResponseBase | None) -> None:
    """See `_end`.

    A request that failed may have done something all the same, so its retry has to know of it. What was committed as
    the database was lost is perhaps not seen yet, for PostgreSQL's standby has to have it first; of the attempts before
    this one all can be seen.
    """
    mine = IdempotencyRecord.objects.filter(pk=claim.pk, status=None)
    *earlier, last = _attempts_of(claim)
    if response is None:
        done = with_effects(earlier)
        known = [*(each for each in earlier if each in done), last]
        mine.update(lease_until=shared_clock.now(), call_ids=[str(each) for each in known])
    elif response.status_code not in NOT_KEPT:
        headers = {name: response[name] for name in KEPT_HEADERS if name in response}
        if body := _body_of(response):
            is_problem = response.status_code >= 400
            headers["Content-Type"] = response["Content-Type"] if is_problem else "application/json"
        mine.update(status=response.status_code, headers=headers, body=body)
    elif with_effects(_attempts_of(claim)):
        mine.update(lease_until=shared_clock.now())
    else:
        mine.delete()


def forget_old_answers() -> None:
    """Remove answers older than 24 hours."""
    IdempotencyRecord.objects.filter(created_at__lt=shared_clock.now() - KEPT_FOR).delete()


def count_by_key() -> Counter[str]:
    """How many requests are known by fingerprints under each encryption key, by the key's name."""
    recent = IdempotencyRecord.objects.filter(created_at__gte=shared_clock.now() - KEPT_FOR)
    return Counter(recent.values_list("encryption_key", flat=True))


def _claim(call: Call, key: str, content: bytes) -> IdempotencyRecord:
    """A new claim, or the finished answer of an earlier one.

    That of a killed request is taken over when the operations log knows what became of it.
    """
    now, credential_id = shared_clock.now(), call.credential.unique_id
    mine = IdempotencyRecord(
        credential_id=credential_id,
        key=key,
        fingerprint=digests(_FINGERPRINT, content)[0],
        encryption_key=name_of_encryption_key(settings.ENCRYPTION_KEYS[0]),
        rights=_rights_of(call),
        call_ids=[str(call.call_id)],
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
        if not is_old and not is_digest(earlier.fingerprint, _FINGERPRINT, content):
            raise KeyReused
        is_free = is_old or _is_to_be_made_anew(earlier, call)
        if not is_free and earlier.status is not None:
            return earlier
        if not is_free and (earlier.lease_until >= now or is_unsettled(_attempts_of(earlier))):
            break
        mine.call_ids = [*([] if is_free else map(str, _attempts_of(earlier))), str(call.call_id)]
        IdempotencyRecord.objects.filter(pk=earlier.pk, lease_until=earlier.lease_until).delete()
    raise InProgress


def _is_to_be_made_anew(earlier: IdempotencyRecord, call: Call) -> bool:
    """Whether an answer tells of nothing that was done, and may show what its caller may not see any more."""
    if earlier.status is None:
        return False
    has_other_rights = earlier.rights != _rights_of(call)
    is_dry_run = earlier.body.startswith('{"dryRun":true')
    return (has_other_rights and earlier.status >= 400) or (is_dry_run and (has_other_rights or bool(call.scopes)))


def _content_of(request: Request, call: Call) -> bytes:
    """What makes a request the same: the directory it is for, however it was chosen, is part of it."""
    directory = str(call.directory.id) if call.directory else ""
    parts = [directory, request.method or "", request.path, request.META.get("QUERY_STRING", "")]
    if call.if_match is not None:
        parts.append(" ".join(sorted(call.if_match)))
    return b"\0".join([*(part.encode() for part in parts), request.body])


_FINGERPRINT: Final = b"fingerprint of a request"


def _body_of(response: Any) -> str:
    """The body of a response as it is kept: what is shown once is null in it."""
    if not isinstance(response, Response):  # a problem
        content: str = response.content.decode()
        return content
    body = response.data
    if isinstance(body, dict):
        body = body | {name: None for name in SECRET_MEMBERS if name in body}
    return "" if body is None else json_of(body).decode()
