"""The addresses of the console, below `/console/`. Each part of it lists its own."""

from gateway.console import home
from gateway.console.access import agents, connections, key_wizard, keys, people, permission_groups, roles
from gateway.console.account import connect_agent, language, profile, sign_in
from gateway.console.approvals import change_requests, inbox, together
from gateway.console.directory import (
    account_states,
    change_templates,
    deleted,
    filter_builder,
    saved_filters,
    search,
    service_accounts,
    tree,
)
from gateway.console.directory.finding import page as finding
from gateway.console.directory.objects import access, actions, compare, edit, memberships, new, own_change
from gateway.console.directory.objects import page as objects
from gateway.console.directory.objects import sign_in as sign_in_card
from gateway.console.directory.selection import pages as selection
from gateway.console.directory.selection import template_pages
from gateway.console.first_day import administrator, steps
from gateway.console.log import records
from gateway.console.runs import pages

app_name = "console"

urlpatterns = [
    *sign_in.urls,
    *profile.urls,
    *language.urls,
    *connect_agent.urls,
    *home.urls,
    *administrator.urls,
    *steps.urls,
    *inbox.urls,
    *together.urls,
    *change_requests.urls,
    *records.urls,
    *search.urls,
    *finding.urls,
    *selection.urls,
    *template_pages.urls,
    *filter_builder.urls,
    *pages.urls,
    *tree.urls,
    *saved_filters.urls,
    *change_templates.urls,
    *account_states.urls,
    *service_accounts.urls,
    *deleted.urls,
    *keys.urls,
    *key_wizard.urls,
    *agents.urls,
    *roles.urls,
    *people.urls,
    *permission_groups.urls,
    *connections.urls,
    *new.urls,
    *edit.urls,
    *objects.urls,
    *access.urls,
    *actions.urls,
    *own_change.urls,
    *memberships.urls,
    *compare.urls,
    *sign_in_card.urls,
]
