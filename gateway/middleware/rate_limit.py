"""Chooses and applies the rate limits of a request, and reports them in its response. `core.rate_limits` counts.

People who share an IP address, behind one proxy, may hit a limit without having done anything wrong: they see a page
that waits, retries by itself, and keeps what they had typed.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.template.loader import render_to_string

from core.errors import RateLimited, ServiceUnavailable
from core.operation import Operation, RateCategory
from core.rate_limits import (
    PASSWORD_CATEGORIES,
    PASSWORDS_WAIT,
    Counters,
    CountersUnavailable,
    Policy,
    RequestLimits,
    Usage,
    address_subject,
    count,
    current_limits,
)
from gateway.middleware import Middleware
from gateway.middleware.people import CONTENT_SECURITY_POLICY
from gateway.monitoring import metrics
from gateway.surfaces.problems import error_response, in_language_of_request
from gateway.surfaces.routes import route_of
from keys.agents.metadata import ENDPOINT

EXEMPT_PATHS = ("/health", "/health/ready")


class PathLimits:
    """The limits configured for single paths (`RateLimiting:Paths`)."""

    def __init__(self, limits: Iterable[tuple[str, Policy]]) -> None:
        # The path with the most literal characters wins; among equals, the one configured first.
        ordered = sorted(limits, key=lambda item: -len(item[0].replace("*", "")))
        self._patterns = [
            (re.compile(".*".join(re.escape(part) for part in path.split("*")), re.DOTALL), policy)
            for path, policy in ordered
        ]

    def find(self, path: str) -> Policy | None:
        return next((policy for pattern, policy in self._patterns if pattern.fullmatch(path)), None)


_FAR = 100
"""A client with so many requests left is far below its limits."""


class ConfiguredLimits:
    """Which limits apply to a request, by the configuration."""

    def __init__(self) -> None:
        configuration = settings.CONFIGURATION.RateLimiting
        self.enabled = configuration.Enabled
        self.global_policy = Policy.of(RateCategory.GLOBAL, configuration.Global)
        self.categories: dict[RateCategory, Policy] = {
            category: Policy.of(category, getattr(configuration, category))
            for category in RateCategory
            if category is not RateCategory.GLOBAL
        }
        self.paths = PathLimits((item.Path, Policy.of("Path", item, rule=item.Path)) for item in configuration.Paths)
        self._counters = lru_cache(maxsize=4096)(self._make_counters)

    def of(self, path: str, operation: Operation | None) -> RequestLimits:
        category = operation.rate if operation else RateCategory.GLOBAL
        override = self.paths.find(path)
        if override and category is not RateCategory.GLOBAL:
            override = Policy(category, override.quota, override.window, override.rule)
        return RequestLimits(category, override, self.categories.get(category))

    def count(self, limits: RequestLimits, client_address: str) -> None:
        """Count a request against its limits; raises CountersUnavailable."""
        counters = self._counters(limits.category, limits.own, client_address)
        self._note(limits, counters, count(counters.counted))

    def begin_to_count(self, limits: RequestLimits, client_address: str) -> Callable[[], None] | None:
        """On the event loop, begin to count a request; the function waits until it is counted. Both raise WouldBlock.

        None, and nothing counted, unless the client's last request left it far below its limits. Raises
        CountersUnavailable.
        """
        counters = self._counters(limits.category, limits.own, client_address)
        if not counters.is_far_below:
            return None
        end = counters.begin()
        return lambda: self._note(limits, counters, end())

    @staticmethod
    def _note(limits: RequestLimits, counters: Counters, usages: list[Usage]) -> None:
        limits.usages = usages
        counters.is_far_below = True
        for policy, requests, _ in usages:
            if policy.quota - requests < _FAR:
                counters.is_far_below = False

    def _make_counters(self, category: RateCategory, own: Policy | None, client_address: str) -> Counters:
        subject = address_subject(client_address)
        # The operation itself counts a password change, against the account.
        if own and category is not RateCategory.PASSWORD_CHANGE:
            return Counters((self.global_policy, subject), (own, subject))
        return Counters((self.global_policy, subject))

    def headers_of(self, limits: RequestLimits) -> dict[str, str]:
        """The headers of draft-ietf-httpapi-ratelimit-headers-10; without counters, only the policies."""
        # A view may have counted the request against a further limit.
        counted = [usage.policy for usage in limits.usages]
        headers = {"RateLimit-Policy": _policies(self.global_policy, limits.own, *counted)}
        if limits.usages:
            told = [
                f'"{usage.policy.name}";r={usage.remaining};t={usage.seconds_left}'
                for usage in _scarcest(limits.usages)
            ]
            headers["RateLimit"] = ", ".join(told)
        return headers


COUNTED = "gateway.counted"
"""The WSGI environment's key for the RequestLimits of a request that was counted before it came here."""


class RateLimitMiddleware(Middleware):
    """Counts every request, refuses those over a limit, and tells in every response how much is left."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        super().__init__(get_response)
        self.configured = ConfiguredLimits()

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not self.configured.enabled or request.path in EXEMPT_PATHS:
            return self.get_response(request)
        route = route_of(request)
        operation = route.operation(request.method) if route else None
        limits = request.META.get(COUNTED) or self.configured.of(request.path, operation)
        token = current_limits.set(limits)
        try:
            response = self._respond(request, limits)
        finally:
            current_limits.reset(token)
        for name, value in self.configured.headers_of(limits).items():
            response[name] = value
        return response

    def _respond(self, request: HttpRequest, limits: RequestLimits) -> HttpResponseBase:
        try:
            if not limits.usages:
                self.configured.count(limits, request.client_address)  # type: ignore[attr-defined]
        except CountersUnavailable:
            if limits.category in PASSWORD_CATEGORIES:
                return error_response(request, ServiceUnavailable(PASSWORDS_WAIT))
            return self.get_response(request)
        if exceeded := limits.exceeded:
            metrics.count_refusal(exceeded[0].policy.name)
            seconds = max(usage.seconds_left for usage in exceeded)
            limited = RateLimited(retry_after=seconds)
            if is_page(request):
                return waiting_page(request, limited, seconds=seconds)
            if request.path == ENDPOINT and _is_small(request):
                request.limit_refusal = limited  # type: ignore[attr-defined]  # the result of a tool, if it is a call
                return self.get_response(request)
            return error_response(request, limited)
        return self.get_response(request)


@lru_cache(maxsize=256)
def _policies(*policies: Policy | None) -> str:
    """The value of RateLimit-Policy; of policies with the same name, the first."""
    by_name: dict[str, Policy] = {}
    for policy in policies:
        if policy is not None:
            by_name.setdefault(policy.name, policy)
    return ", ".join(f'"{item.name}";q={item.quota};w={item.window}' for item in by_name.values())


def _scarcest(usages: Iterable[Usage]) -> Iterable[Usage]:
    """One usage for each policy: the one with the least remaining, since a batch counts several accounts."""
    by_name: dict[str, Usage] = {}
    for usage in usages:
        known = by_name.get(usage.policy.name)
        if known is None or usage.remaining < known.remaining:
            by_name[usage.policy.name] = usage
    return by_name.values()


PAGES = "/console/"
_SMALL = 65_536
"""Bytes. No more is read of a request that is over a limit."""

_FORM = "application/x-www-form-urlencoded"
_SECRET_FIELDS = ("password", "code", "secret")
"""A form with a field whose name contains one of these is never written into a page."""


def is_page(request: HttpRequest) -> bool:
    return request.path.startswith(PAGES)


def waiting_page(request: HttpRequest, refusal: RateLimited, *, seconds: int) -> HttpResponse:
    """Return a page with a countdown that then repeats the request, with the fields of a form that was sent.

    For a part of a page, which htmx requests, it is only a message with the countdown.
    """
    is_part = "HX-Request" in request.headers
    fields = _fields_of(request) if request.method == "POST" and not is_part else None
    context = {
        "seconds": seconds,
        "address": request.get_full_path(),
        "is_form": request.method == "POST",
        "fields": fields,
        "request_id": getattr(request, "request_id", ""),
        "problem": refusal,
    }
    template = "console/_rate_limited.html" if is_part else "console/rate_limited.html"
    with in_language_of_request(request):
        content = render_to_string(template, context)
    response = HttpResponse(content, status=refusal.status, headers=refusal.headers)
    # The middleware that sets these headers on other pages comes after this one.
    response["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
    response["Cache-Control"] = "no-store"
    return response


def _is_small(request: HttpRequest) -> bool:
    length = request.META.get("CONTENT_LENGTH") or ""
    return length.isdecimal() and int(length) <= _SMALL


def _fields_of(request: HttpRequest) -> list[tuple[str, str]] | None:
    """Return the fields of a form as sent, or None if they must not be kept; the browser still has them.

    The body size has not been checked yet, so only a small body with a Content-Length is read.
    """
    if request.content_type != _FORM or not _is_small(request):
        return None
    if any(secret in name.lower() for name in request.POST for secret in _SECRET_FIELDS):
        return None
    return [(name, str(value)) for name, values in request.POST.lists() for value in values]
