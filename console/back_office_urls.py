"""The URLs below `/admin/` that the console serves: sign-in, sign-out and password change."""

from django.urls import path
from django.views.generic import RedirectView

from console.account.sign_in import sign_in_to_admin, sign_out
from console.page_context import console_page

# Django's own views know no second factor and do not count wrong passwords.
urlpatterns = [
    path("login/", sign_in_to_admin),
    path("logout/", console_page("POST", may_lack_second_factor=True)(sign_out)),
    path("password_change/", RedirectView.as_view(pattern_name="console:account")),
]
