"""The addresses of the console, below `/console/`. Each part of it lists its own."""

from console import home
from console.access import agents, connections, key_wizard, keys, people, permission_groups, roles
from console.account import connect_agent, language, profile, sign_in
from console.approvals import change_requests, grouped_review, inbox
from console.directory import (
    account_states,
    change_templates,
    deleted,
    filter_builder,
    saved_filters,
    search,
    service_accounts,
    tree,
)
from console.directory.objects import access, actions, compare, edit, memberships, new, own_change
from console.directory.objects import page as objects
from console.directory.objects import sign_in as sign_in_card
from console.directory.quick_search import page as finding
from console.directory.selection import pages as selection
from console.directory.selection import template_pages
from console.log import records
from console.runs import pages
from console.setup_wizard import administrator, steps

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
    *grouped_review.urls,
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
