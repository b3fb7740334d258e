"""The addresses of the console, below `/console/`. Each part of it lists its own."""

from gateway.console import (
    account,
    account_states,
    changes,
    connections,
    deleted,
    filter_builder,
    home,
    key_wizard,
    keys,
    log,
    people,
    roles,
    runs,
    saved_filters,
    search,
    service_accounts,
    sign_in,
    tree,
)

app_name = "console"

urlpatterns = [
    *sign_in.urls,
    *account.urls,
    *home.urls,
    *changes.urls,
    *log.urls,
    *search.urls,
    *filter_builder.urls,
    *runs.urls,
    *tree.urls,
    *saved_filters.urls,
    *account_states.urls,
    *service_accounts.urls,
    *deleted.urls,
    *keys.urls,
    *key_wizard.urls,
    *roles.urls,
    *people.urls,
    *connections.urls,
]
