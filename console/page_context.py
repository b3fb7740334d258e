"""A page asked for by a signed-in person: who that is, the operations called on the way, what becomes of a refusal."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from console.menu import MENU, Entry, entries_for
from console.shared.safe_redirect import own_path
from core import shown_once
from core.call import Call
from core.configuration import RateLimit
from core.errors import GatewayError, MethodNotAllowed, Unauthorized
from core.occasional_limits import require_below_limit
from core.operation import SIGNED_IN, Effect, Operation, find_operation
from directory.errors import OutcomeUnknown
from directory.models import DirectoryConnection
from gateway import pipeline
from gateway.surfaces.problems import error_of
from keys.authentication import SecondFactorMissing, check_reason, identify_session
from keys.permissions.effective import find_directories

_P = ParamSpec("_P")

CHOSEN_DIRECTORY = "console-directory"
"""Where the session keeps the Client ID of the directory that a local account has chosen."""
_FORMS = RateLimit(Requests=120, WindowSeconds=60)
"""Sent in one session: more than people fill in."""


class WaitsForSecondPerson(Exception):
    """More access was asked for and waits (`Approvals:AccessNeedsTwo`); the page goes on to the change request."""

    def __init__(self, request_id: str) -> None:
        super().__init__(request_id)
        self.request_id = request_id


class AnswerIsLate(Exception):
    """The domain controller has not answered yet; the page goes on to one that follows the change by its record."""

    def __init__(self, record_id: str) -> None:
        super().__init__(record_id)
        self.record_id = record_id


@dataclass(slots=True)
class PageContext:
    """One request of a signed-in person to a page.

    `call` is what the operations get: the permissions are those read at the beginning of this request. `directories`
    are those the person may choose from; the chosen one is `call.directory`. What was read for it `may_be_behind` after
    a fail-over.
    """

    request: HttpRequest
    call: Call
    directories: list[DirectoryConnection]
    may_be_behind: bool = False

    @property
    def is_partial(self) -> bool:
        """Whether htmx asks for a part of the page only."""
        headers = self.request.headers
        return "HX-Request" in headers and "HX-History-Restore-Request" not in headers

    @property
    def query(self) -> dict[str, str]:
        """The parameters of the address, without those left empty: a form sends all of its fields."""
        return {name: value for name, value in self.request.GET.items() if isinstance(value, str) and value.strip()}

    @property
    def form(self) -> dict[str, str]:
        """The fields of the form sent; several of one name are read with `request.POST.getlist`."""
        return {name: value for name, value in self.request.POST.items() if isinstance(value, str)}

    @property
    def sent(self) -> QueryDict:
        """The fields of a form, whether they came in the address or in the body."""
        return self.request.POST if self.request.method == "POST" else self.request.GET

    def way_back(self, otherwise: str) -> str:
        """The page of ours that a form names as where it was come from (`from`), else that of this name."""
        return own_path(self.request, self.sent.get("from", "")) or page_address(otherwise)

    @property
    def menu(self) -> list[Entry]:
        """The parts of the console that the person may see."""
        return entries_for(self.call.permissions, is_staff=self.request.user.is_staff and not self.call.scopes)

    @property
    def waiting(self) -> Mapping[str, int]:
        """How much waits for the person's decision, for the menu; nothing for who decides nothing."""
        if not self.may("change-requests.count-waiting"):
            return {}
        try:
            counted: Mapping[str, int] = self.perform("change-requests.count-waiting")
        except GatewayError:  # a page is not refused because of a number in its menu
            return {}
        return counted

    @property
    def here(self) -> Entry | None:
        """The part of the console that the page belongs to."""
        path = self.request.path
        if path == MENU[0].place:
            return MENU[0]
        return next((entry for entry in MENU[1:] if path.startswith(entry.place)), None)

    @property
    def is_superuser(self) -> bool:
        """Whether the person may make keys for others, and change those of others."""
        return bool(getattr(self.request.user, "is_superuser", False))

    def may(self, name: str) -> bool:
        """Whether the operation of that name would admit the person at all; a target may ask for more."""
        operation = find_operation(name)
        return SIGNED_IN in operation.permission or bool(operation.permission & self.call.permissions)

    def perform(self, name: str, *, query: Mapping[str, str] | None = None, body: Any = None, **arguments: Any) -> Any:
        """The answer of an operation; raises GatewayError. `arguments` are those of its path (`id=…`)."""
        return self.answer(name, query=query, body=body, **arguments).body

    def answer(
        self,
        name: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        if_match: str | None = None,
        reason: str | None = None,
        respond_async: bool = False,
        **arguments: Any,
    ) -> pipeline.Answer:
        """The same with its status and headers. `if_match` is the version seen; `reason` goes to the log.

        Beside what it refuses a change raises what no form handles: the page goes on to where the change is followed.
        """
        call = replace(
            self.call,
            if_match=frozenset({if_match}) if if_match else None,
            reason=check_reason(reason),
            respond_async=respond_async,
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
                raise AnswerIsLate(record_id) from unknown
            raise
        self.may_be_behind |= answer.may_be_behind
        if operation.effect is Effect.ADMINISTER and answer.status == 202:
            raise WaitsForSecondPerson(answer.body["changeRequest"]["id"])
        return answer

    def _require_form_sent(self, operation: Operation, query: Mapping[str, str]) -> None:
        """Whoever follows a link, or whose browser is made to, changes nothing by it: only forms carry a CSRF token."""
        if operation.effect is Effect.READ or query.get("dryRun") == "true" or self.request.method == "POST":
            return
        raise MethodNotAllowed(headers={"Allow": "POST"})

    def render(
        self, template: str, context: Mapping[str, Any] | None = None, *, status: int | None = None
    ) -> HttpResponse:
        """A page, or with htmx a part of one: `template` is below `templates/console/`.

        Without a `status` it has that of the `problem` in its context, else 200.
        """
        shown = {"page": self, "problem": None, **(context or {})}
        if status is None:
            status = shown["problem"].status if shown["problem"] else 200
        return render(self.request, f"console/{template}", shown, status=status)

    def redirect(self, view: str, *, said: str | None = None, **arguments: Any) -> HttpResponse:
        """Go on to a page, which tells what was `said`; so reloading it does not repeat what was done."""
        return self.redirect_to(page_address(view, **arguments), said=said)

    def redirect_showing(self, value: Any, view: str, **arguments: Any) -> HttpResponse:
        """Go on to a page that shows a value once, which takes it by `shown_once.take`."""
        return self.redirect_to(shown_once.keep(self.request, page_address(view, **arguments), value))

    def redirect_to(self, address: str, *, said: str | None = None) -> HttpResponse:
        if said is not None:
            messages.success(self.request, said)
        return _send_to(self.request, address)


def page_address(view: str, **arguments: Any) -> str:
    """The address of the page of that name."""
    return reverse(f"console:{view}", kwargs=arguments)


View = Callable[Concatenate[PageContext, _P], HttpResponseBase]


def console_page(
    *methods: str, get: str | None = None, post: str | None = None, may_lack_second_factor: bool = False
) -> Callable[[View[_P]], Callable[Concatenate[HttpRequest, _P], HttpResponseBase]]:
    """Make a function a page for signed-in people; others are sent to sign in and then back.

    `get` and `post` name the operation that a request of that method stands for, so that it counts against the same
    rate limit as everywhere else. A refusal that the function does not handle becomes a page that says so. Whoever has
    to set up a second factor first is sent to do so, except from the pages that they `may_lack_second_factor` for.
    """
    declared = {method: find_operation(name) for method, name in (("GET", get), ("POST", post)) if name is not None}
    allowed = methods or (("GET", "POST") if post else ("GET",))

    def decorate(function: View[_P]) -> Callable[Concatenate[HttpRequest, _P], HttpResponseBase]:
        @wraps(function)
        def view(request: HttpRequest, /, *args: _P.args, **kwargs: _P.kwargs) -> HttpResponseBase:
            page = None
            try:
                page = _begin(request, may_lack_second_factor=may_lack_second_factor)
                if request.method == "POST":
                    require_below_limit("ConsoleForms", page.call.credential.unique_id, _FORMS)
                return function(page, *args, **kwargs)
            except Unauthorized:
                return _send_to_sign_in(request)
            except SecondFactorMissing:
                return _send_to(request, page_address("second-factor"))
            except WaitsForSecondPerson as waits:
                messages.info(request, _("This gives more access, so a second person has to approve it first."))
                return _send_to(request, page_address("change", request_id=waits.request_id))
            except AnswerIsLate as late:
                return _send_to(request, page_address("own-change", record_id=late.record_id))
            except Exception as error:  # noqa: BLE001 - the console's problem handler
                return refusal_page(request, page, error_of(error))

        view.operations = declared  # type: ignore[attr-defined]  # read by the rate limit, before the view runs
        return never_cache(require_http_methods(list(allowed))(view))

    return decorate


def _begin(request: HttpRequest, *, may_lack_second_factor: bool) -> PageContext:
    directories = find_directories(getattr(request.user, "connection", None)) if request.user.is_authenticated else []
    ids = [item.client_id for item in directories]
    chosen = request.session.get(CHOSEN_DIRECTORY)
    # Django's middleware has checked the CSRF token, as for every page.
    call = identify_session(
        request,
        check_csrf=False,
        client_id=chosen if chosen in ids else next(iter(ids), None),
        may_lack_second_factor=may_lack_second_factor,
    )
    return PageContext(request, call, directories)


def refusal_page(request: HttpRequest, page: PageContext | None, error: GatewayError) -> HttpResponse:
    """What a person sees of a refusal: a page, or with htmx a message in the frame of the page they are on."""
    template = "console/_problem.html" if page is not None and page.is_partial else "console/refusal.html"
    response = render(request, template, {"page": page, "problem": error}, status=error.status)
    for name, value in error.headers.items():
        response[name] = value
    return response


def _send_to_sign_in(request: HttpRequest) -> HttpResponse:
    is_partial = "HX-Request" in request.headers
    # A form that was sent is lost with its session; the way back leads to the page that had it.
    there = own_path(request, request.headers.get("HX-Current-URL", "") if is_partial else request.get_full_path())
    return _send_to(request, page_address("sign-in") + (f"?{urlencode({'next': there})}" if there else ""))


def _send_to(request: HttpRequest, address: str) -> HttpResponse:
    """To another page, of a whole page and of a part of one."""
    if "HX-Request" in request.headers:
        return HttpResponse(status=204, headers={"HX-Redirect": address})
    return HttpResponseRedirect(address)
