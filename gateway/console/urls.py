"""The addresses of the console, below `/console/`. Each part of it lists its own."""

from gateway.console import account, changes, home, log, runs, sign_in, tree

app_name = "console"

urlpatterns = [
    *sign_in.urls,
    *account.urls,
    *home.urls,
    *changes.urls,
    *log.urls,
    *runs.urls,
    *tree.urls,
]
