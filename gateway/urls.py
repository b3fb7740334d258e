"""Every address of the gateway."""

import re

from django.conf import settings
from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from core.call import Surface
from gateway.monitoring.health import health, metrics, ready
from gateway.surfaces import agent_sign_in, problems
from gateway.surfaces.agent.endpoint import AgentEndpoint
from gateway.surfaces.openapi.documents import document_settings
from gateway.surfaces.session import SessionsViewSet, SessionViewSet
from gateway.surfaces.viewsets import router_for
from keys.authentication import SessionAuthentication

# The reference writes these three paths without /api; they are the same machine surface.
BARE = re.compile(r"ad/organization-units/\{id\}/accounts/")

api_urls = [path("api/", include(router_for(Surface.API).urls))]
rest_urls = [
    path("rest/", include(router_for(Surface.REST).urls)),
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
    path("", include(router_for(Surface.API, only=BARE).urls)),
    *rest_urls,
    path("mcp", AgentEndpoint.as_view(), name="mcp"),
    *agent_sign_in.urls,
    path("console/", include("console.urls")),
    path("admin/", include("console.back_office_urls")),
    path("admin/", admin.site.urls),
    path("", RedirectView.as_view(pattern_name="console:home")),
]

admin.site.site_url = None  # "View site": the bar at the top leads to the console
admin.site.index_title = "Back office"

if settings.DEVELOPMENT:  # what makes documents takes five megabytes, which production does not pay
    from drf_spectacular.views import SpectacularJSONAPIView, SpectacularSwaggerView

    for _surface, _patterns in ((Surface.API, api_urls), (Surface.REST, rest_urls)):
        _name = f"{_surface.value}-openapi"
        _document = SpectacularJSONAPIView.as_view(patterns=_patterns, custom_settings=document_settings(_surface))
        urlpatterns += [
            path(f"{_surface.value}/openapi.json", _document, name=_name),
            path(f"{_surface.value}/docs", SpectacularSwaggerView.as_view(url_name=_name)),
        ]

handler400 = problems.handler400
handler403 = problems.handler403
handler404 = problems.handler404
handler500 = problems.handler500
