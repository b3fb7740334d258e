"""The straight way: reads with an API key, past Django's request, its middleware and REST framework.

Where they wait for nothing but one read of the directory, Redis and the state of access, the event loop answers them
without a thread; what would wait for anything else there goes to a thread (`active_directory.event_loop`).

It answers what succeeds and nothing else. Every refusal, every fault and every header that it does not know hands the
request over to the general way, as if it had never been here, but for its count against the rate limits. It has no rule
of its own: it calls what the middleware, the views and the pipeline call, in their order
(docs/decisions.md), and tests compare the answers of both ways.
"""

from dataclasses import replace
from functools import cache, lru_cache, partial
from io import BytesIO
from time import monotonic, perf_counter
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.core.exceptions import DisallowedHost, SynchronousOnlyOperation
from django.core.handlers.wsgi import WSGIRequest
from django.db import DEFAULT_DB_ALIAS, connections
from django.http import HttpResponse

from active_directory import WouldBlock, is_on_loop, require_condition, run_on_loop, set_condition
from core import tracing
from core.call import Surface
from core.ip_addresses import AddressList
from core.operation import Effect, Operation
from core.rate_limits import RequestLimits, current_limits
from core.shapes import encode_json
from gateway import pipeline
from gateway.middleware.body_limit import MAX_URI_LENGTH
from gateway.middleware.client_address import client_address_of
from gateway.middleware.compression import MIN_BYTES, choose_coding, compress
from gateway.middleware.people import BrowserSecurityMiddleware
from gateway.middleware.rate_limit import COUNTED, ConfiguredLimits
from gateway.middleware.request_id import ARRIVED_AT, begin_request, end_request
from gateway.server.requests import WITHOUT_HEADERS, Environ
from gateway.surfaces.reading import parse_query, read_versions
from gateway.surfaces.rendering import record_shape, rendered_answer
from gateway.surfaces.routes import Route, find_route
from gateway.surfaces.viewsets import REFUSED, lists_in_query
from keys.authentication import call_of_key

Header = tuple[bytes, bytes]
Straight = tuple[int, list[Header], bytes]
"""Status, headers and body."""

KNOWN_HEADERS: Final = frozenset(
    {
        *("HTTP_X_API_KEY", "HTTP_X_CLIENT_ID", "HTTP_IF_NONE_MATCH", "HTTP_X_REQUEST_ID", "HTTP_HOST"),
        *("HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_PROTO", "HTTP_ACCEPT_ENCODING"),
        # Nothing here depends on these.
        *("HTTP_ACCEPT", "HTTP_ACCEPT_LANGUAGE", "HTTP_USER_AGENT", "HTTP_CONNECTION", "HTTP_COOKIE"),
    }
)
_KNOWN_VARIABLES: Final = KNOWN_HEADERS | WITHOUT_HEADERS | {ARRIVED_AT, COUNTED, REFUSED, "wsgi.input"}

_PREFIX: Final = f"{Surface.API.value}-"
_ID_OF_READS: Final = UUID(int=0)
"""Instead of a `Call.call_id`, which is of changes alone."""
_AT_ONCE: Final = 64
"""Reads on the loop. Threads answer what comes beside them: there credentials take turns."""
_TIMES: Final = 20
_SECONDS: Final = 0.1
"""What threads had to answer so often on end is left to them for so long."""
_MOST_KINDS: Final = 1000


def _is_read(route: Route) -> bool:
    """Whether it is a route of a read with a key whose answer has one form."""
    return route.name.startswith(_PREFIX) and _has_one_form(route.operations.get("GET"))


@cache
def _has_one_form(operation: Operation | None) -> bool:
    return (
        operation is not None
        and operation.effect is Effect.READ
        and record_shape(operation.output) is None
        and operation.deprecation is None
    )


class StraightWay:
    """Answers the requests that it can, by the configuration of the moment when it was made."""

    def __init__(self) -> None:
        self._limits = ConfiguredLimits()
        self._proxies = AddressList(settings.CONFIGURATION.ForwardedHeaders.KnownProxies)
        self._security_headers = lru_cache(maxsize=256)(_security_headers)
        self._on_loop = 0
        self._left_to_threads: dict[tuple[str, str], tuple[int, float]] = {}

    async def answer_on_loop(self, environ: Environ) -> Straight | None:
        """The answer to a request, without a thread; None if a thread has to answer it.

        What threads had to answer again and again is left to them for a moment: it needs more than a fresh cache.
        """
        route = self._find_route(environ)
        if route is None:
            return None
        kind = route.name, environ["QUERY_STRING"]
        times, until = self._left_to_threads.get(kind, (0, 0.0))
        if self._on_loop >= _AT_ONCE or (times >= _TIMES and monotonic() < until):
            return None
        self._on_loop += 1
        try:
            answer = await run_on_loop(partial(self._try, environ, route))
        except (WouldBlock, SynchronousOnlyOperation):  # Django's own, before it would wait for a database
            if len(self._left_to_threads) >= _MOST_KINDS:
                self._left_to_threads.clear()
            self._left_to_threads[kind] = times + 1, monotonic() + _SECONDS
            return None
        finally:
            self._on_loop -= 1
        if times:
            self._left_to_threads.pop(kind, None)
        return answer

    def answer(self, environ: Environ) -> Straight | None:
        """The answer to a request; None if it has to go the general way."""
        route = self._find_route(environ)
        if route is None:
            return None
        database = connections[DEFAULT_DB_ALIAS]
        if not database.in_atomic_block:
            database.close_if_unusable_or_obsolete()  # as Django does before and after each request
        return self._try(environ, route)

    @staticmethod
    def _find_route(environ: Environ) -> Route | None:
        """The route of a request whose headers are all known, and which may be answered here."""
        if environ["REQUEST_METHOD"] != "GET" or "HTTP_X_API_KEY" not in environ or tracing.IS_ON:
            return None
        if not environ.keys() <= _KNOWN_VARIABLES:
            return None
        path = environ["PATH_INFO"]
        if not path.isascii() or len(path) + len(environ["QUERY_STRING"]) >= MAX_URI_LENGTH:
            return None  # Django decodes a path's octets
        route = find_route(path)
        return route if route is not None and _is_read(route) else None

    def _try(self, environ: Environ, route: Route) -> Straight | None:
        try:
            try:
                return self._answer(environ, route)
            finally:
                require_condition()  # so that whoever answers instead knows whether it was counted
        except SynchronousOnlyOperation:
            raise
        except Exception:  # noqa: BLE001 - nothing is hidden: the general way records and tells it
            return None

    def _limits_of(self, environ: Environ, operation: Operation, address: str) -> RequestLimits:
        """The limits of a request, which has been counted, or will be before the object that it reads is used."""
        limits: RequestLimits | None = environ.get(COUNTED)
        if limits is not None:
            return limits
        limits, end = self._limits.of(environ["PATH_INFO"], operation), None
        if is_on_loop() and operation.needs_directory and operation.names_object:
            end = self._limits.begin_to_count(limits, address)
        if end is None:
            self._limits.count(limits, address)
            environ[COUNTED] = limits
            return limits

        def require_below_limits() -> None:
            end()
            environ[COUNTED] = limits
            if limits.exceeded:
                raise WouldBlock  # a thread refuses it

        set_condition(require_below_limits)
        return limits

    def _answer(self, environ: Environ, route: Route) -> Straight | None:
        path, operation = environ["PATH_INFO"], route.operations["GET"]
        started = environ.get(ARRIVED_AT) or perf_counter()
        address = client_address_of(environ, self._proxies)
        head = self._security_headers(*map(environ.get, _SEEN_AS))
        if head is None:
            return None
        limits = None
        if self._limits.enabled:
            limits = self._limits_of(environ, operation, address)
            if limits.exceeded:
                return None
        id = begin_request(environ)
        presented, client_id = environ["HTTP_X_API_KEY"], environ.get("HTTP_X_CLIENT_ID")
        call = call_of_key(
            presented, client_id, client_address=address, request_id=id, reason=None, call_id=_ID_OF_READS
        )
        if "HTTP_IF_NONE_MATCH" in environ:
            call = replace(call, if_none_match=read_versions(environ["HTTP_IF_NONE_MATCH"]))
        query = partial(parse_query, environ["QUERY_STRING"], lists=lists_in_query(operation))
        inputs = pipeline.Inputs(arguments=route.arguments, query=query, document=lambda: None)
        token = current_limits.set(limits)
        try:
            answer = pipeline.read_unrecorded(operation, call, inputs)
        except Exception as refusal:
            if not is_on_loop():
                environ[REFUSED] = refusal  # so that nobody waits twice for a directory that does not answer
            raise
        finally:
            current_limits.reset(token)
        status, headers, data, content_type = rendered_answer(call, answer)
        if limits is not None:
            headers |= self._limits.headers_of(limits)
        headers["X-Request-Id"] = id
        body = b""
        if status != 304:
            body = encode_json(data)
            headers["Content-Type"] = content_type or "application/json"
            if len(body) >= MIN_BYTES:
                headers["Vary"] = "Accept-Encoding"
                if (coding := choose_coding(environ.get("HTTP_ACCEPT_ENCODING", ""))) is not None:
                    headers["Content-Encoding"], body = coding, compress(body, coding)
            headers["Content-Length"] = str(len(body))
        end_request(
            started,
            method="GET",
            path=path,
            status=status,
            operation=operation.name,
            client=address,
            id=id,
            caller=call,
        )
        return status, [*head, *_encoded(headers)], body


_SEEN_AS: Final = ("HTTP_HOST", "SERVER_NAME", "SERVER_PORT", "wsgi.url_scheme", "HTTP_X_FORWARDED_PROTO")
"""What security headers depend on besides the configuration."""


def _security_headers(*seen_as: str | None) -> list[Header] | None:
    """The headers that the middleware adds to an answer for programs; None for a host that is not ours."""
    known = {name: value for name, value in zip(_SEEN_AS, seen_as, strict=True) if value is not None}
    request = WSGIRequest({**known, "REQUEST_METHOD": "GET", "PATH_INFO": "/api/", "wsgi.input": BytesIO()})
    try:
        response: Any = BrowserSecurityMiddleware(lambda _: HttpResponse())(request)
    except DisallowedHost:
        return None
    del response["Content-Type"]
    return _encoded(response)


def _encoded(headers: Any) -> list[Header]:
    return [(_name(name), value.encode("latin-1")) for name, value in headers.items()]


@lru_cache(maxsize=256)
def _name(header: str) -> bytes:
    return header.encode("latin-1")
