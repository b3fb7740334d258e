"""Pages for signed-in people: who is asking, calls of operations, and how refusals are shown."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit, urlunsplit

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.urls import URLPattern, path, reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from active_directory import Filter
from approvals.models import Status
from console.menu import MENU, MenuEntry, entries_for
from console.object_names import NAMED, resolve_names
from core import shown_once
from core.call import Call, Schedule
from core.configuration_sections import RateLimit
from core.errors import GatewayError, InvalidRequest, MethodNotAllowed, Unauthorized
from core.operation import Effect, Operation, find_operation
from core.rate_limits import require_below_limit
from core.text.messages import message
from directory.errors import OutcomeUnknown
from directory.models import DirectoryConnection
from gateway import pipeline
from gateway.surfaces.problems import error_of
from keys.authentication import SecondFactorMissing, check_reason, identify_session
from keys.models import Person
from keys.permissions.effective import find_directories

CHOSEN_DIRECTORY = "console-directory"
"""Session key: the Client ID of the directory that a local account has chosen."""
_FORMS = RateLimit(Requests=120, WindowSeconds=60)
"""Forms that one session may send: more than a person can fill in."""


class ChangeDeferred(Exception):
    """A change waits for a second person or a domain controller; `address` is the page that follows it."""

    def __init__(self, address: str, message: str = "") -> None:
        super().__init__(address)
        self.address, self.message = address, message


@dataclass(slots=True)
class PageContext:
    """One request of a signed-in person to a page.

    `call` is passed to operations; it holds the permissions read at the start of this request. The person may choose
    one of `directories`; `call.directory` is the chosen one. After a fail-over, what the page shows `may_be_behind`.
    After the refusal of a form, `problem` is why; `unresolved` refuses names that it sent for objects.
    """

    request: HttpRequest
    call: Call
    directories: list[DirectoryConnection]
    may_be_behind: bool = False
    problem: GatewayError | None = None
    unresolved: GatewayError | None = None

    @property
    def is_partial(self) -> bool:
        """Whether htmx requests only a part of the page."""
        headers = self.request.headers
        # To restore a page that has left its history cache, htmx needs the whole page.
        return "HX-Request" in headers and "HX-History-Restore-Request" not in headers

    @property
    def requested_part(self) -> str:
        """The id of the element that htmx replaces; empty for a whole page."""
        return self.request.headers.get("HX-Target", "") if self.is_partial else ""

    @property
    def query(self) -> defaultdict[str, str]:
        """The query parameters that are not blank (a form sends its empty fields, too); all others are empty."""
        return defaultdict(str, {name: str(value) for name, value in self.request.GET.items() if str(value).strip()})

    def query_of(self, *names: str) -> dict[str, str]:
        """Those of the named query parameters that are not blank."""
        return {name: value for name, value in self.query.items() if name in names}

    @property
    def form(self) -> defaultdict[str, str]:
        """The fields of a POST; all others are empty. Use `request.POST.getlist` for several of one name."""
        return defaultdict(str, {name: str(value) for name, value in self.request.POST.items()})

    @property
    def person(self) -> Person:
        """The signed-in person's account."""
        person = self.request.user
        assert isinstance(person, Person)  # pages are for signed-in people
        return person

    @property
    def is_post(self) -> bool:
        return self.request.method == "POST"

    @property
    def submitted(self) -> QueryDict:
        """The fields of a form, sent by GET or by POST."""
        return self.request.POST if self.is_post else self.request.GET

    def resolve_names(self) -> None:
        """Put distinguished names in place of the names that the form sent for objects of the directory."""
        if NAMED not in self.submitted:
            return

        def search(condition: Filter) -> list[dict[str, Any]]:
            query = {"filter": str(condition), "attributes": "objectSid", "sort": "name", "pageSize": "6"}
            found: list[dict[str, Any]] = self.perform("objects.search", query=query)["items"]
            return found

        fields, self.unresolved = resolve_names(self.submitted, search)
        setattr(self.request, "POST" if self.is_post else "GET", fields)

    def require_names(self) -> None:
        """Refuse names that name no object, or several. Raises InvalidRequest."""
        if self.unresolved is not None:
            raise self.unresolved

    def return_url(self, otherwise: str) -> str:
        """The page that a form names as its origin (`from`) if it is one of ours, else the view `otherwise`."""
        return same_site_path(self.request, self.submitted.get("from", "")) or page_url(otherwise)

    @property
    def menu(self) -> list[MenuEntry]:
        """The menu entries that the person may see."""
        # People with scopes administer nothing of the gateway itself, so they have no use for Django admin.
        return entries_for(self.call.permissions, is_staff=self.person.is_staff and not self.call.scopes)

    @property
    def waiting_counts(self) -> Mapping[str, int]:
        """How many changes wait for the person's decision, for the menu; empty for people who decide nothing."""
        if not self.may("change-requests.count-waiting"):
            return {}
        try:
            counted: Mapping[str, int] = self.perform("change-requests.count-waiting")
        except GatewayError:  # a number in the menu must not fail the page
            return {}
        return counted

    @property
    def current_entry(self) -> MenuEntry | None:
        """The menu entry that the page belongs to."""
        path = self.request.path
        if path == MENU[0].path_prefix:
            return MENU[0]
        return next((entry for entry in MENU[1:] if path.startswith(entry.path_prefix)), None)

    @property
    def is_superuser(self) -> bool:
        """Whether the person may create and change keys of other owners."""
        return self.person.is_superuser

    def may(self, name: str) -> bool:
        """Whether the person may call the operation at all; a target may require more permissions."""
        return find_operation(name).may_be_called_with(self.call.permissions)

    def perform_if_admitted(self, name: str) -> Any:
        """The body of an operation without arguments; None if the person may not call it."""
        return self.perform(name) if self.may(name) else None

    def list_page(self, name: str, **arguments: Any) -> Any:
        """The page of a list that the address asks for, with 50 records by default."""
        return self.perform(name, query={"pageSize": "50", **self.query}, **arguments)

    def list_first(self, name: str, count: int, /, **query: str) -> list[dict[str, Any]]:
        """The first `count` records of a list, at most 1,000; empty if the person may not call the operation."""
        if not self.may(name):
            return []
        found: list[dict[str, Any]] = self.perform(name, query={**query, "pageSize": str(count)})["items"]
        return found

    def list_all(self, name: str, /, **query: str) -> list[dict[str, Any]]:
        """All pages of a list; empty if the person may not call the operation."""
        if not self.may(name):
            return []
        found: list[dict[str, Any]] = []
        query = {"pageSize": "1000", **query}
        while True:
            part = self.perform(name, query=query)
            found += part["items"]
            if part["nextCursor"] is None:
                return found
            query["cursor"] = part["nextCursor"]

    def perform(
        self,
        name: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        if_match: str | None = None,
        reason: str | None = None,
        respond_async: bool = False,
        schedule: Schedule | None = None,
        **arguments: Any,
    ) -> Any:
        """Call an operation and return the body of its answer. `arguments` are those of its path (`id=…`).

        `if_match` is the version that the person has seen; `reason` goes to the log; `schedule` says when a change
        begins and ends. Raises GatewayError, and ChangeDeferred when the change waits for a second person or for its
        time, or the domain controller has not answered yet.
        """
        call = replace(
            self.call,
            if_match=frozenset({if_match}) if if_match else None,
            reason=check_reason(reason),
            respond_async=respond_async,
            schedule=schedule,
        )
        inputs = pipeline.Inputs(
            arguments={argument: str(value) for argument, value in arguments.items()},
            query=lambda: query or {},
            document=lambda: body,
        )
        operation = find_operation(name)
        self._require_form_sent(operation, query or {})
        try:
            answer = pipeline.run(operation, call, inputs)
        except OutcomeUnknown as unknown:
            if (record_id := unknown.members.get("recordId")) is not None:
                raise ChangeDeferred(page_url("own-change", record_id=record_id)) from unknown
            raise
        self.may_be_behind |= answer.may_be_behind
        if operation.effect is Effect.ADMINISTER and answer.status == 202:
            message = _("This gives more access, so a second person has to approve it first.")
            raise ChangeDeferred(page_url("change", request_id=answer.body["changeRequest"]["id"]), message)
        if operation.effect is Effect.CHANGE and answer.status == 202 and "changeRequest" in answer.body:
            message = _("A budget is used up, so a second person has to approve this first.")
            if answer.body["changeRequest"]["status"] == Status.SCHEDULED:
                message = _("Scheduled: the change will be made at its scheduled time.")
            raise ChangeDeferred(page_url("change", request_id=answer.body["changeRequest"]["id"]), message)
        return answer.body

    def _require_form_sent(self, operation: Operation, query: Mapping[str, str]) -> None:
        """Refuse changes by GET: another site can make a browser follow a link, but not send a form's CSRF token."""
        if operation.effect is Effect.READ or query.get("dryRun") == "true" or self.is_post:
            return
        raise MethodNotAllowed(headers={"Allow": "POST"})

    def render(
        self, template: str, context: Mapping[str, Any] | None = None, *, status: int | None = None
    ) -> HttpResponse:
        """Render a template below `templates/console/`: a page, or for htmx a part of one.

        `status` defaults to that of the `problem`, else 200.
        """
        shown = {"page": self, "problem": self.problem, **(context or {})}
        if status is None:
            status = shown["problem"].status if shown["problem"] else 200
        return render(self.request, f"console/{template}", shown, status=status)

    def redirect(self, view: str, *, message: str | None = None, **arguments: Any) -> HttpResponse:
        """Redirect to a page that shows the `message`, so that reloading it does not repeat the change."""
        return self.redirect_to(page_url(view, **arguments), message=message)

    def redirect_showing(self, value: Any, view: str, **arguments: Any) -> HttpResponse:
        """Redirect to a page that shows a value once; it takes the value with `shown_once.take`."""
        return self.redirect_to(shown_once.keep(self.request, page_url(view, **arguments), value))

    def redirect_to(self, address: str, *, message: str | None = None) -> HttpResponse:
        if message is not None:
            messages.success(self.request, message)
        return _send_to(self.request, address)


def page_url(view: str, **arguments: Any) -> str:
    """The URL of a page by its name."""
    return reverse(f"console:{view}", kwargs=arguments)


View = TypeVar("View", bound=Callable[..., HttpResponseBase])
PAGES: list[URLPattern] = []
"""The URL patterns of all pages, filled by `page_at` when their modules are imported."""


def page_at(
    route: str, name: str, *methods: str, fixed: dict[str, Any] | None = None, **declared: Any
) -> Callable[[View], View]:
    """Register a function as the page `name` at a route; the other arguments are those of `console_page`.

    Returns the function unchanged, so that pages can call each other. A function can have several routes, each with its
    own `fixed` arguments.
    """

    def decorate(function: View) -> View:
        PAGES.append(path(route, console_page(*methods, **declared)(function), fixed, name=name))
        return function

    return decorate


def console_page(
    *methods: str,
    get: str | None = None,
    post: str | None = None,
    form: Callable[..., HttpResponseBase] | None = None,
    may_lack_second_factor: bool = False,
) -> Callable[[View], Callable[..., HttpResponseBase]]:
    """Turn a function into a view for signed-in people; others are sent to sign in and then back.

    `get` and `post` name the operation whose rate limit a request of that method counts against. A refusal that the
    function does not handle is rendered as a page. With a `form`, the function handles only POST: `form` renders the
    page, and renders it again with the `problem` after a refusal. People who must set up a second factor are redirected
    to do so, except from pages with `may_lack_second_factor`.
    """
    declared = {method: find_operation(name) for method, name in (("GET", get), ("POST", post)) if name is not None}
    allowed = methods or (("GET", "POST") if post else ("GET",))

    def decorate(function: View) -> Callable[..., HttpResponseBase]:
        handle = function if form is None else _with_form(function, form)

        @wraps(function)
        def view(request: HttpRequest, /, **arguments: Any) -> HttpResponseBase:
            page = None
            try:
                page = _begin(request, may_lack_second_factor=may_lack_second_factor)
                _refuse_nul(request)
                if page.is_post:
                    require_below_limit("ConsoleForms", page.call.credential.unique_id, _FORMS)
                page.resolve_names()
                return handle(page, **arguments)
            except Unauthorized:
                return _send_to_sign_in(request)
            except SecondFactorMissing:
                return _send_to(request, page_url("second-factor"))
            except ChangeDeferred as change:
                if change.message:
                    messages.info(request, change.message)
                return _send_to(request, change.address)
            except Exception as error:  # noqa: BLE001 - the console's problem handler
                return render_refusal(request, page, error_of(error))

        view.operations = declared  # type: ignore[attr-defined]  # read by the rate limit, before the view runs
        return never_cache(require_http_methods(list(allowed))(view))

    return decorate


def _with_form(function: View, form: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """A view that calls `form` for GET and after a refusal, and `function` for POST."""

    def handle(page: PageContext, /, **arguments: Any) -> HttpResponseBase:
        if not page.is_post or "preset" in page.request.POST:  # a preset's button only fills in the form
            return form(page, **arguments)
        try:
            page.require_names()
            return function(page, **arguments)
        except GatewayError as refusal:
            page.problem = refusal
            return form(page, **arguments)

    return handle


def _begin(request: HttpRequest, *, may_lack_second_factor: bool) -> PageContext:
    """Identify the person and choose their directory; raises Unauthorized and SecondFactorMissing."""
    directories = find_directories(getattr(request.user, "connection", None)) if request.user.is_authenticated else []
    ids = [item.client_id for item in directories]
    chosen = request.session.get(CHOSEN_DIRECTORY)  # it may have been disabled since
    # Django's middleware has checked the CSRF token already.
    call = identify_session(
        request,
        check_csrf=False,
        client_id=chosen if chosen in ids else next(iter(ids), None),
        may_lack_second_factor=may_lack_second_factor,
    )
    return PageContext(request, call, directories)


def _refuse_nul(request: HttpRequest) -> None:
    """Refuse a parameter or field with NUL, which PostgreSQL does not take for text; raises InvalidRequest.

    The ways back are not stored: `same_site_path` judges them.
    """
    for name, values in (*request.GET.lists(), *request.POST.lists()):
        if name not in ("from", "back") and any("\0" in text for text in (name, *values)):
            raise InvalidRequest.naming(message("A value cannot contain NUL"), parameter=name)


def render_refusal(request: HttpRequest, page: PageContext | None, error: GatewayError) -> HttpResponse:
    """Render a refusal as a page, or for htmx as a message in the current page."""
    template = "console/_problem.html" if page is not None and page.is_partial else "console/refusal.html"
    response = render(request, template, {"page": page, "problem": error}, status=error.status)
    for name, value in error.headers.items():
        response[name] = value
    return response


def _send_to_sign_in(request: HttpRequest) -> HttpResponse:
    is_partial = "HX-Request" in request.headers
    # htmx requests a part: after signing in, the person wants the page around it.
    next_url = same_site_path(
        request, request.headers.get("HX-Current-URL", "") if is_partial else request.get_full_path()
    )
    return _send_to(request, page_url("sign-in") + (f"?{urlencode({'next': next_url})}" if next_url else ""))


def _send_to(request: HttpRequest, address: str) -> HttpResponse:
    """Redirect a browser or htmx to another page."""
    if "HX-Request" in request.headers:
        # The browser would follow a 302 itself, and htmx would swap the whole page into a part of this one.
        return HttpResponse(status=204, headers={"HX-Redirect": address})
    return HttpResponseRedirect(address)


def same_site_path(request: HttpRequest, address: str) -> str | None:
    """Path, query and fragment of a URL of this gateway; None for any other URL.

    The result has neither scheme nor host, and no browser can read one into it (as into `//host`): phishing uses open
    redirects to borrow a trusted name (CWE-601).
    """
    if not url_has_allowed_host_and_scheme(address, {request.get_host()}, require_https=request.is_secure()):
        return None
    parts = urlsplit(address)
    if not parts.path.startswith("/") or parts.path.startswith("//") or "\\" in address:
        return None
    return urlunsplit(("", "", parts.path, parts.query, parts.fragment))
