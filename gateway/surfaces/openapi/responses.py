"""The refusals and the response headers that operations share, as tables."""

from typing import Any

HEADERS: dict[str, dict[str, Any]] = {
    "X-Request-Id": {
        "description": "The id of the request: the client's own if it sent a usable one. It is in the log too.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 128},
    },
    "RateLimit-Policy": {
        "description": "The limits that count this request (draft-ietf-httpapi-ratelimit-headers-10).",
        "schema": {"type": "string", "examples": ['"Global";q=300;w=60']},
    },
    "RateLimit": {
        "description": "What is left of these limits, and in how many seconds they start anew.",
        "schema": {"type": "string", "examples": ['"Global";r=299;t=60']},
    },
    "Retry-After": {
        "description": "Seconds to wait before the next attempt.",
        "schema": {"type": "integer", "minimum": 1},
    },
    "ETag": {
        "description": "The version of the object, quoted: for If-Match and If-None-Match.",
        "schema": {"type": "string"},
    },
    "Location": {
        "description": "Where the created object, the change request or the run is found.",
        "schema": {"type": "string", "format": "uri-reference"},
    },
    "Idempotency-Replayed": {
        "description": "`true` when this is the kept answer to an earlier request with the same Idempotency-Key.",
        "schema": {"type": "string", "const": "true"},
    },
    "Gateway-Replication": {
        "description": (
            "`pending` after a fail-over: changes that were made at another domain controller may be missing."
        ),
        "schema": {"type": "string", "const": "pending"},
    },
    "WWW-Authenticate": {
        "description": "The credentials that are accepted.",
        "schema": {"type": "string"},
    },
}

ALWAYS = ("X-Request-Id", "RateLimit", "RateLimit-Policy")
"""Headers of every response."""

PROBLEMS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "400": ("BadRequest", "The request is not understood; `code` and `errors` say why.", ()),
    "401": ("Unauthorized", "There is no valid credential.", ("WWW-Authenticate",)),
    "403": ("Forbidden", "The credential does not allow it.", ()),
    "404": ("NotFound", "There is no such thing.", ("Gateway-Replication",)),
    "406": ("NotAcceptable", "No representation of the answer is acceptable.", ()),
    "408": ("RequestTimeout", "The body did not arrive in time.", ()),
    "409": ("Conflict", "The current state does not allow it.", ()),
    "411": ("LengthRequired", "The body has no Content-Length.", ()),
    "412": ("PreconditionFailed", "The object has another version than If-Match names, or none yet.", ()),
    "413": ("BodyTooLarge", "The body is too large; `maxBodyBytes` names the limit.", ()),
    "414": ("UriTooLong", "The address is too long.", ()),
    "415": (
        "UnsupportedMediaType",
        "The body is not plain application/json, or the request has a Content-Encoding.",
        (),
    ),
    "422": (
        "Unprocessable",
        "The directory refused the values, or the Idempotency-Key was used for another request.",
        (),
    ),
    "429": ("TooManyRequests", "A limit is reached; `Retry-After` says when to come back.", ("Retry-After",)),
    "500": ("ServerError", "The gateway failed; `requestId` finds the reason in its log.", ()),
    "502": ("BadGateway", "The directory refused the gateway's own account.", ()),
    "503": (
        "Unavailable",
        "The directory or a part of the gateway is not available. Nothing was changed.",
        ("Retry-After",),
    ),
    "504": ("OutcomeUnknown", "It is not known whether the change was made; the operations log will tell.", ()),
}
"""By status: the name of the response's component, its description and the headers that it has besides."""
