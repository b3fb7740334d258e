"""The addresses of the console, below `/console/`. Each part of it lists its own."""

from django.urls import path
from django.views.generic import RedirectView

from gateway.console import changes, home, log, tree

app_name = "console"

urlpatterns = [
    path("sign-in", RedirectView.as_view(pattern_name="admin:login", query_string=True), name="sign-in"),
    *home.urls,
    *changes.urls,
    *log.urls,
    *tree.urls,
]
