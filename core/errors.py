"""The errors that the gateway can answer with. Code raises them; the problem handler alone renders them.

Errors of the directory are in `directory.errors`, those of one app in that app.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from django.conf import settings

from core.text.messages import message


@dataclass(frozen=True, slots=True)
class FieldError:
    """One offending member of a body (`pointer`, a JSON pointer such as `#/replace/mail`) or query (`parameter`)."""

    code: str
    detail: str
    pointer: str | None = None
    parameter: str | None = None

    def as_json(self) -> dict[str, str]:
        where = {"pointer": self.pointer} if self.pointer is not None else {"parameter": self.parameter or ""}
        return {**where, "code": self.code, "detail": self.detail}


def anchor_of(code: str) -> str:
    """Where the documentation's table of codes (docs/api.md#codes) has the line of a code."""
    return code.lower().replace(".", "-")


def problem_type(code: str) -> str:
    """The address of a code's line in the documentation, where the configuration says where that is served."""
    base = settings.CONFIGURATION.Documentation.BaseUrl.rstrip("/")
    return f"{base}/api.html#{anchor_of(code)}" if base else "about:blank"


class GatewayError(Exception):
    """A refusal with an HTTP status, a stable code and a sentence for the caller.

    `errors` name the offending fields, `members` are more members of the problem (`maxBodyBytes=…`), `headers` go into
    the response.
    """

    status: ClassVar[int] = 500
    code: str = "Server.Error"
    title: ClassVar[str] = "The gateway failed"

    def __init__(
        self,
        detail: str | None = None,
        *,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
        **members: Any,
    ) -> None:
        self.detail = detail or self.title
        self.errors = tuple(errors)
        self.headers = dict(headers or {})
        self.members = members
        super().__init__(self.detail)

    @classmethod
    def naming(
        cls,
        detail: str,
        *,
        pointer: str | None = None,
        parameter: str | None = None,
        subject: str | None = None,
        sentence: str | None = None,
        **members: Any,
    ) -> Self:
        """Refuse one field. The problem repeats the detail, after a `subject` if given, or says `sentence` instead."""
        error = FieldError(cls.code, detail, pointer=pointer, parameter=parameter)
        if subject is not None:
            sentence = message("{name}: {detail}", name=subject, detail=detail)
        return cls(sentence or detail, errors=[error], **members)

    def as_problem(self) -> dict[str, Any]:
        """The problem details without `instance` and `requestId`, which the handler adds."""
        problem: dict[str, Any] = {
            "type": problem_type(self.code),
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            **self.members,
        }
        if self.errors:
            problem["errors"] = [error.as_json() for error in self.errors]
        return problem


def error_classes(family: type[GatewayError] = GatewayError) -> Iterator[type[GatewayError]]:
    """A class of errors and its subclasses, each class before those that share its code under another title."""
    yield family
    for error in family.__subclasses__():
        yield from error_classes(error)


class MalformedRequest(GatewayError):
    """The body is not JSON, or JSON that parsers read differently, such as with a member twice."""

    status, code, title = 400, "Request.Malformed", "The request body is not valid JSON"


class UnknownMember(GatewayError):
    status, code, title = 400, "Request.UnknownMember", "The body has a member that this operation does not know"


class UnknownParameter(GatewayError):
    status, code, title = 400, "Request.UnknownParameter", "The query has a parameter that this operation does not know"


class InvalidRequest(GatewayError):
    status, code, title = 400, "Request.Invalid", "A value is missing, of the wrong type or out of range"


def invalid_member(member: str, detail: str) -> InvalidRequest:
    """The refusal of one member of a body; `member` is the path of its JSON pointer, such as `role` or `scopes/0`."""
    return InvalidRequest.naming(detail, pointer=f"#/{member}", subject=f"#/{member}")


class AmbiguousCredential(GatewayError):
    status, code, title = 400, "Request.AmbiguousCredential", "Send either X-API-Key or Authorization, not both"


class ClientIdRequired(GatewayError):
    status, code = 400, "Request.ClientIdRequired"
    title = "The credential can use several directories: name one with X-Client-Id"


class Unauthorized(GatewayError):
    """No usable credential. The answer never says why, so that it cannot be probed; the security log does."""

    status, code, title = 401, "Auth.Unauthorized", "A valid credential is required"

    def __init__(self) -> None:
        super().__init__(headers={"WWW-Authenticate": 'Bearer realm="directory-gateway", ApiKey header="X-API-Key"'})


class Forbidden(GatewayError):
    """The caller may not do this. The answer never names the permissions that are `missing`, where they are known."""

    status, code, title = 403, "Auth.Forbidden", "This operation is not allowed"

    def __init__(self, missing: frozenset[str] = frozenset()) -> None:
        super().__init__()
        self.missing = missing


class NotFound(GatewayError):
    status, code, title = 404, "Request.NotFound", "There is nothing at this address"


class MethodNotAllowed(GatewayError):
    status, code, title = 405, "Request.MethodNotAllowed", "This address does not answer to this method"


class NotAcceptable(GatewayError):
    status, code, title = 406, "Request.NotAcceptable", "None of the media types asked for can be produced"


class Conflict(GatewayError):
    """The state of one of the gateway's own records (a role in use, a key revoked) does not allow the change."""

    status, code, title = 409, "Request.Conflict", "The current state does not allow this"


class BodyNotReceived(GatewayError):
    status, code, title = 408, "Request.Timeout", "The request body did not arrive in time"


class LengthRequired(GatewayError):
    status, code, title = 411, "Request.LengthRequired", "A request with a body must carry Content-Length"


class BodyTooLarge(GatewayError):
    status, code, title = 413, "Request.BodyTooLarge", "The request body is too large"


class UriTooLong(GatewayError):
    status, code, title = 414, "Request.UriTooLong", "The address is too long"


class UnsupportedMediaType(GatewayError):
    status, code, title = 415, "Request.UnsupportedMediaType", "Send application/json without a content encoding"


LIMIT_REACHED = "The limit is reached"


class RateLimited(GatewayError):
    status, code, title = 429, "RateLimit.Exceeded", "Too many requests"

    def __init__(self, *, retry_after: int, why: str = LIMIT_REACHED) -> None:
        super().__init__(
            message("{why}; try again in {retry_after} s.", why=why, retry_after=retry_after),
            headers={"Retry-After": str(retry_after)},
        )


class ServiceUnavailable(GatewayError):
    """A part of the gateway itself (database, broker, counters) does not answer; nothing was changed."""

    status, code, title = 503, "Service.Unavailable", "A part of the gateway is not available"

    def __init__(self, detail: str | None = None, *, retry_after: int = 5) -> None:
        super().__init__(detail, headers={"Retry-After": str(retry_after)})
