"""The site of Django admin: who may enter, and that nothing is changed there without a record."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.admin import AdminSite, ModelAdmin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.messages import get_messages
from django.core.exceptions import ValidationError
from django.db import DataError
from django.http import HttpRequest, HttpResponseBase
from django.template.response import TemplateResponse

from audit.model_changes.recording import only_recorded_writes
from core.database.time_limit import short_queries
from core.errors import GatewayError, InvalidRequest
from keys.authentication import identify_session
from keys.models import Person
from keys.permissions.scopes import is_confined
from keys.sign_in import second_factor

_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


class BackOffice(AdminSite):
    """Django admin for the gateway's own tables."""

    def register(self, model_or_iterable: Any, admin_class: type[ModelAdmin] | None = None, **options: Any) -> None:
        """Leave out the pages of the OAuth toolkit, which would change clients and tokens without a record.

        Agents and their clients are managed in the console.
        """
        if admin_class is not None and admin_class.__module__.startswith("oauth2_provider."):
            return
        super().register(model_or_iterable, admin_class, **options)

    def has_permission(self, request: HttpRequest) -> bool:
        """Admit only people without scopes: these pages show whole tables, and log records of any object."""
        person = request.user
        return (
            super().has_permission(request)
            and isinstance(person, Person)
            and not second_factor.is_missing(person)
            and not is_confined(person)
        )

    def admin_view(self, view: Callable[..., Any], cacheable: bool = False) -> Any:
        """Wrap a view so that it identifies its caller, as `/rest` does, and cannot write without a log record."""

        @wraps(view)
        def administer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            # Django's middleware has checked the CSRF token, as for every page.
            request.administering = identify_session(request, check_csrf=False)  # type: ignore[attr-defined]
            try:
                _require_ids(view, request)
                with short_queries() if request.method in _SAFE_METHODS else only_recorded_writes():
                    response: HttpResponseBase = view(request, *args, **kwargs)
                    if isinstance(response, TemplateResponse):  # its rows may be read only while it is rendered
                        response.render()
            except GatewayError as refusal:
                return self._refused(request, refusal)
            except (ValidationError, DataError):  # raised where Django uses ids and filters
                return self._refused(request, InvalidRequest())
            return response

        return super().admin_view(administer, cacheable)

    def _refused(self, request: HttpRequest, refusal: GatewayError) -> TemplateResponse:
        """Return the page that says what was refused and why, without the view's success messages."""
        list(get_messages(request))  # iterating marks them as shown
        context = {**self.each_context(request), "title": f"{refusal.title}.", "refusal": refusal}
        return TemplateResponse(request, "admin/refused.html", context, status=refusal.status)


def _require_ids(view: Callable[..., Any], request: HttpRequest) -> None:
    """Look at the ids that are chosen in a list, which Django does not; raises ValidationError."""
    model_admin = getattr(view, "__self__", None)
    if isinstance(model_admin, ModelAdmin):
        for id in request.POST.getlist(ACTION_CHECKBOX_NAME):
            model_admin.model._meta.pk.to_python(id)
