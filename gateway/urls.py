"""Every address of the gateway."""

import re

from django.conf import settings
from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from core.call import Surface
from gateway.monitoring.health import health, metrics, ready
from gateway.surfaces import agent_sign_in, problems
from gateway.surfaces.agent.endpoint import agent_endpoint
from gateway.surfaces.batch import batch_urls
from gateway.surfaces.openapi.on_demand import document_urls
from gateway.surfaces.session import SessionsViewSet, SessionViewSet
from gateway.surfaces.viewsets import router_for

# The reference writes these three paths without /api; they are the same machine surface.
BARE = re.compile(r"ad/organization-units/\{id\}/accounts/")

api_urls = [path("api/", include([*router_for(Surface.API).urls, *batch_urls(Surface.API)]))]
rest_urls = [
    path("rest/", include([*router_for(Surface.REST).urls, *batch_urls(Surface.REST)])),
    path("rest/session", SessionViewSet.as_view({"get": "retrieve", "post": "create", "delete": "destroy"})),
    path("rest/session/access-token", SessionViewSet.as_view({"post": "create_access_token"})),
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
    path("mcp", agent_endpoint),
    *agent_sign_in.urls,
    path("console/", include("console.urls")),
    path("admin/", include("console.back_office_urls")),
    path("admin/", admin.site.urls),
    path("", RedirectView.as_view(pattern_name="console:home")),
]

admin.site.site_url = None  # "View site": the bar at the top leads to the console
admin.site.index_title = "Back office"

if settings.DEVELOPMENT:
    urlpatterns += [*document_urls(Surface.API, api_urls), *document_urls(Surface.REST, rest_urls)]

handler400 = problems.handler400
handler403 = problems.handler403
handler404 = problems.handler404
handler500 = problems.handler500
