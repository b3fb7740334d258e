"""The addresses below `/admin/` that the console answers: sign-in, sign-out and the change of a password."""

from django.urls import path
from django.views.generic import RedirectView

from console.account.sign_in import sign_in_to_admin, sign_out

urlpatterns = [
    path("login/", sign_in_to_admin),
    path("logout/", sign_out),
    path("password_change/", RedirectView.as_view(pattern_name="console:account")),  # where wrong ones count
]
