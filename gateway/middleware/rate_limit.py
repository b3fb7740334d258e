"""The rate limits of a request: which apply, and what its answer says of them.

The counting is in `core.rate_limits`.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

from core.errors import RateLimited, ServiceUnavailable
from core.operation import RateCategory
from core.rate_limits import (
    PASSWORD_CATEGORIES,
    PASSWORDS_WAIT,
    CountersUnavailable,
    Policy,
    RequestLimits,
    Usage,
    address_subject,
    count,
    current_limits,
)
from gateway.middleware.rate_limit_page import is_page, page_that_waits
from gateway.monitoring import metrics
from gateway.surfaces.problems import error_response
from gateway.surfaces.routes import route_of

EXEMPT_PATHS = ("/health", "/health/ready")


class PathLimits:
    """The limits configured for single paths (`RateLimiting:Paths`)."""

    def __init__(self, limits: Iterable[tuple[str, Policy]]) -> None:
        # The longest literal part wins; of equals, the one that is written first.
        ordered = sorted(limits, key=lambda item: -len(item[0].replace("*", "")))
        self._patterns = [
            (re.compile(".*".join(re.escape(part) for part in path.split("*")), re.DOTALL), policy)
            for path, policy in ordered
        ]

    def find(self, path: str) -> Policy | None:
        return next((policy for pattern, policy in self._patterns if pattern.fullmatch(path)), None)


class RateLimitMiddleware:
    """Counts every request, refuses those over a limit, and says on every answer how much is left."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response
        configuration = settings.CONFIGURATION.RateLimiting
        self.enabled = configuration.Enabled
        self.globally = Policy.of(RateCategory.GLOBAL, configuration.Global)
        self.categories: dict[RateCategory, Policy] = {
            category: Policy.of(category, getattr(configuration, category))
            for category in RateCategory
            if category is not RateCategory.GLOBAL
        }
        self.paths = PathLimits((item.Path, Policy.of("Path", item, rule=item.Path)) for item in configuration.Paths)

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not self.enabled or request.path in EXEMPT_PATHS:
            return self.get_response(request)
        route = route_of(request)
        operation = route.operation(request.method) if route else None
        category = operation.rate if operation else RateCategory.GLOBAL
        override = self.paths.find(request.path)
        if override and category is not RateCategory.GLOBAL:
            override = Policy(category, override.quota, override.window, override.rule)
        limits = RequestLimits(override)
        token = current_limits.set(limits)
        try:
            response = self._respond(request, category, limits)
        finally:
            current_limits.reset(token)
        self._describe(response, category, limits)
        return response

    def _respond(self, request: HttpRequest, category: RateCategory, limits: RequestLimits) -> HttpResponseBase:
        subject = address_subject(request.client_address)  # type: ignore[attr-defined]
        counted = [(self.globally, subject)]
        # A password change is counted by its operation, for the account that it finds.
        if category is not RateCategory.PASSWORD_CHANGE and (own := limits.override or self.categories.get(category)):
            counted.append((own, subject))
        try:
            limits.usages = count(counted)
        except CountersUnavailable:
            if category in PASSWORD_CATEGORIES:
                return error_response(request, ServiceUnavailable(PASSWORDS_WAIT))
            return self.get_response(request)
        exceeded = [usage for usage in limits.usages if usage.is_exceeded]
        if exceeded:
            metrics.count_refusal(exceeded[0].policy.name)
            seconds = max(usage.rest for usage in exceeded)
            limited = RateLimited(retry_after=seconds)
            if is_page(request):
                return page_that_waits(request, limited, seconds=seconds)
            return error_response(request, limited)
        return self.get_response(request)

    def _describe(self, response: HttpResponseBase, category: RateCategory, limits: RequestLimits) -> None:
        """The two headers of draft-ietf-httpapi-ratelimit-headers-10. Without counters, only the policies are known."""
        # A view may have counted the request against a further limit.
        counted = tuple(usage.policy for usage in limits.usages)
        own = limits.override or self.categories.get(category)
        response["RateLimit-Policy"] = _policies(self.globally, own, *counted)
        if limits.usages:
            response["RateLimit"] = ", ".join(
                f'"{usage.policy.name}";r={usage.remaining};t={usage.rest}' for usage in _scarcest(limits.usages)
            )


@lru_cache(maxsize=256)
def _policies(*policies: Policy | None) -> str:
    """The value of RateLimit-Policy; of several by one name the first."""
    by_name: dict[str, Policy] = {}
    for policy in policies:
        if policy is not None:
            by_name.setdefault(policy.name, policy)
    return ", ".join(f'"{item.name}";q={item.quota};w={item.window}' for item in by_name.values())


def _scarcest(usages: Iterable[Usage]) -> Iterable[Usage]:
    """One usage for each policy: of the accounts of a batch, the one with the least left."""
    by_name: dict[str, Usage] = {}
    for usage in usages:
        known = by_name.get(usage.policy.name)
        if known is None or usage.remaining < known.remaining:
            by_name[usage.policy.name] = usage
    return by_name.values()
