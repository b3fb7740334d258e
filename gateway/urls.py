"""Every address of the gateway."""

import re

from django.conf import settings
from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from core.call import Surface
from gateway.monitoring.health import health, metrics, ready
from gateway.surfaces import agent_sign_in
from gateway.surfaces.agent.endpoint import AgentEndpoint
from gateway.surfaces.openapi.documents import document_settings
from gateway.surfaces.problems import handler400, handler403, handler404, handler500  # noqa: F401 - Django's names
from gateway.surfaces.session import SessionsViewSet, SessionViewSet
from gateway.surfaces.viewsets import urls_of
from keys.authentication import SessionAuthentication

# The API reference also writes these three paths without /api; they belong to the same surface.
_WITHOUT_PREFIX = re.compile(r"ad/organization-units/\{id\}/accounts/")

api_urls = [path("api/", include(urls_of(Surface.API)))]
rest_urls = [
    path("rest/", include(urls_of(Surface.REST))),
    path("rest/session", SessionViewSet.as_view({"get": "retrieve", "post": "create", "delete": "destroy"})),
    path(
        "rest/session/access-token",
        SessionViewSet.as_view({"post": "create_access_token"}, authentication_classes=[SessionAuthentication]),
    ),
    path("rest/sessions", SessionsViewSet.as_view({"get": "list", "delete": "destroy_others"})),
    path("rest/sessions/<str:id>", SessionsViewSet.as_view({"delete": "destroy"})),
]

urlpatterns = [
    path("health", health),
    path("health/ready", ready),
    path("metrics", metrics),
    *api_urls,
    path("", include(urls_of(Surface.API, only=_WITHOUT_PREFIX))),
    *rest_urls,
    path("mcp", AgentEndpoint.as_view(), name="mcp"),
    *agent_sign_in.urls,
    path("calendar.ics", include("console.approvals.calendar")),
    path("console/", include("console.urls")),
    path("admin/", include("console.back_office_urls")),
    path("admin/", admin.site.urls),
    path("", RedirectView.as_view(pattern_name="console:home")),
]

admin.site.site_url = None  # "View site": the bar at the top leads to the console
admin.site.index_title = "Back office"

if settings.DEVELOPMENT:  # production saves the five megabytes that drf-spectacular's views take
    from drf_spectacular.views import SpectacularJSONAPIView, SpectacularSwaggerView

    for _surface, _patterns in ((Surface.API, api_urls), (Surface.REST, rest_urls)):
        _name = f"{_surface.value}-openapi"
        _document = SpectacularJSONAPIView.as_view(patterns=_patterns, custom_settings=document_settings(_surface))
        urlpatterns += [
            path(f"{_surface.value}/openapi.json", _document, name=_name),
            path(f"{_surface.value}/docs", SpectacularSwaggerView.as_view(url_name=_name)),
        ]
