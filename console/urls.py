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

_MODULES = (
    sign_in,
    profile,
    language,
    connect_agent,
    home,
    administrator,
    steps,
    inbox,
    grouped_review,
    change_requests,
    records,
    search,
    finding,
    selection,
    template_pages,
    filter_builder,
    pages,
    tree,
    saved_filters,
    change_templates,
    account_states,
    service_accounts,
    deleted,
    keys,
    key_wizard,
    agents,
    roles,
    people,
    permission_groups,
    connections,
    new,
    edit,
    objects,
    access,
    actions,
    own_change,
    memberships,
    compare,
    sign_in_card,
)
urlpatterns = [pattern for module in _MODULES for pattern in module.urls]
