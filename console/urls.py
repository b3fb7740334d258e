"""The URLs below `/console/`: pages declare their own; the views before signing in are listed here."""

from importlib import import_module
from pkgutil import walk_packages

from django.urls import path

import console
from console.account import invitation
from console.account.sign_in import passkey_options, sign_in, sign_in_by_passkey, sign_in_code
from console.account.sign_in_elsewhere import begin, end_by_provider, finish
from console.page_context import PAGES
from console.setup_wizard import set_up

app_name = "console"

for _module in walk_packages(console.__path__, "console."):
    import_module(_module.name)  # fills PAGES
urlpatterns = [
    path("sign-in", sign_in, name="sign-in"),
    path("sign-in/code", sign_in_code, name="sign-in-code"),
    path("sign-in/passkey", sign_in_by_passkey, name="sign-in-by-passkey"),
    path("sign-in/passkey/options", passkey_options, {"is_second_step": False}, name="sign-in-passkey-options"),
    path("sign-in/code/options", passkey_options, {"is_second_step": True}, name="sign-in-code-options"),
    path("sign-in/at/<slug:name>", begin, name="sign-in-elsewhere"),
    path("sign-in/at/<slug:name>/return", finish, name="sign-in-elsewhere-return"),
    path("sign-in/at/<slug:name>/signed-out", end_by_provider, name="signed-out-elsewhere"),
    path("invitation", invitation.accept, name="invitation"),
    path("setup", set_up, name="set-up"),
    *PAGES,
]
