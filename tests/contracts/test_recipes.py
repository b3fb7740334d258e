"""What a recipe of CONTRIBUTING.md asks for besides the declaration itself is there, for whatever is declared.

What other tests hold: words of operations, kinds and errors in both languages (`test_labels`, `test_messages`), tools
of agents (`test_agent_surface`), tables of the documentation (`tests.docs.test_reference`).
"""

import pytest
from django.apps import apps
from django.urls import reverse
from django.utils.translation import gettext, override

from console.directory.accounts import STATE_GROUPS
from console.directory.objects.form import SECTIONS, TITLES
from console.menu import MENU, MenuEntry
from core.configuration_sections import RateLimit, RateLimitingSection
from core.operation import SIGNED_IN, Operation, RateCategory, find_operation, operations
from directory.queries.account_searches import AccountState
from directory.security.needed_rights import USUAL_ATTRIBUTES
from directory.shapes.kinds import RESOURCES, Kind, KindDeclaration
from gateway.surfaces.agent.tools import TOOLS
from keys.permission_catalogue import APPS, MEANINGS
from lab.commands import PROJECT


def in_german(text: str) -> str:
    with override("de"):
        return gettext(text)


# --- a kind of objects


def test_every_kind_has_a_form() -> None:
    assert SECTIONS.keys() == set(Kind)


@pytest.mark.parametrize("declared", [each for each in RESOURCES.values() if each.classes], ids=lambda each: each.kind)
def test_what_can_be_created_has_a_title_and_the_rights_it_needs(declared: KindDeclaration) -> None:
    title = TITLES[declared.kind]
    assert title == f"New {declared.singular}"
    assert in_german(title) != title
    assert declared.object_class in USUAL_ATTRIBUTES


# --- a state of accounts


def test_the_console_describes_every_state_of_accounts() -> None:
    described = [state for states in STATE_GROUPS.values() for state in states]
    assert sorted(described) == sorted(AccountState)


# --- a permission


def test_the_catalogue_has_the_permissions_that_models_declare() -> None:
    declared = set()
    for model in (model for app in APPS for model in apps.get_app_config(app).get_models()):
        options = model._meta
        declared |= {f"{options.app_label}.{action}_{options.model_name}" for action in options.default_permissions}
        declared |= {f"{options.app_label}.{codename}" for codename, _name in options.permissions}
    assert sorted(MEANINGS.keys() ^ declared) == []


@pytest.mark.parametrize("operation", list(operations()), ids=lambda each: each.name)
def test_what_an_operation_asks_for_is_in_the_catalogue(operation: Operation) -> None:
    assert (operation.permission | operation.requires) - {SIGNED_IN} <= MEANINGS.keys()


# --- a rate category


@pytest.mark.parametrize("category", RateCategory)
def test_every_rate_category_has_a_limit_that_is_documented(category: RateCategory) -> None:
    field = RateLimitingSection.model_fields.get(category)
    assert field is not None, f"RateLimitingSection has no {category}"
    assert isinstance(field.default, RateLimit)
    line = f"| `RateLimiting:{category}` | {field.default.Requests} in {field.default.WindowSeconds} s |"
    assert line in (PROJECT / "docs" / "api.md").read_text("utf-8")


# --- a tool for agents


@pytest.mark.parametrize("tool", TOOLS)
def test_every_tool_is_documented(tool: str) -> None:
    assert f"`{tool}`" in (PROJECT / "docs" / "agents.md").read_text("utf-8")


# --- a page of the console


@pytest.mark.parametrize("entry", MENU, ids=lambda each: each.view)
def test_every_entry_of_the_menu_has_a_page_and_a_german_name(entry: MenuEntry) -> None:
    assert reverse(entry.view)
    for name in entry.operations:
        find_operation(name)
    assert in_german(entry.label) != entry.label
