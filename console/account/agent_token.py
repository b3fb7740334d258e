"""The page where a person issues a token for an agent without a browser; it says what the consent page says."""

from typing import Any

from django.http import HttpResponseBase
from django.utils.translation import gettext as _

from audit.model_changes.recording import recorded
from console.account.connect_agent import chosen_directory, scope_choices
from console.page_context import PageContext, page_at
from core import shown_once
from core.errors import Forbidden, GatewayError, InvalidRequest
from core.text.names import require_label
from keys.agents import issued_tokens
from keys.agents.availability import require_agents
from keys.agents.grants import Consent
from keys.agents.metadata import audience_of
from keys.agents.scopes import DEFAULT_SCOPE, SCOPES
from keys.models.agents import NAME_LENGTH


@page_at("account/agents/new", "agent-token")
def agent_token(page: PageContext, problem: GatewayError | None = None) -> HttpResponseBase:
    """The form, and after it the token, once."""
    _require_allowed()
    chosen = tuple(page.request.POST.getlist("scope")) if page.is_post else (DEFAULT_SCOPE,)
    directories = page.directories
    return page.render(
        "account/agent_token.html",
        {
            "choices": scope_choices(page, list(SCOPES), chosen),
            "directories": directories,
            "directory": page.form.get("directory", directories[0].client_id if directories else ""),
            "typed": page.form,
            "problem": problem,
            "was_shown": not page.is_post and shown_once.is_expected(page.request),
            "token": shown_once.take(page.request),
        },
    )


@page_at("account/agents/issue", "agent-token-issue", "POST", form=agent_token)
def issue_agent_token(page: PageContext) -> HttpResponseBase:
    _require_allowed()
    name = _name_in(page.form)
    wanted = page.request.POST.getlist("scope")
    scopes = tuple(item.name for item in scope_choices(page, list(SCOPES)) if item.is_usable and item.name in wanted)
    if not scopes:
        raise InvalidRequest.naming(_("Allow the agent at least one thing."), pointer="#/scope")
    directory = chosen_directory(page)
    if directory is None:
        raise InvalidRequest.naming(_("Choose the directory."), pointer="#/directory")
    audience = audience_of(page.request)
    consent = Consent(person=page.person, connection=directory, scopes=scopes, audience=audience)
    with recorded(page.call, operation="agents.create") as administration:
        grant, value = issued_tokens.issue(name, consent)
        administration.note_new_row(grant.client)
        administration.note_new_row(grant)
    shown = {"value": value, "until": grant.expires_at.isoformat(), "name": name, "endpoint": audience}
    return page.redirect_showing(shown, "agent-token")


def _require_allowed() -> None:
    require_agents()
    if not issued_tokens.may_be_issued():
        raise Forbidden


def _name_in(form: Any) -> str:
    name = " ".join(form.get("name", "").split())
    if not 0 < len(name) <= NAME_LENGTH:
        raise InvalidRequest.naming(_("Give the agent a name that you will know it by."), pointer="#/name")
    try:
        return require_label(name)
    except ValueError as error:
        raise InvalidRequest.naming(str(error), pointer="#/name") from None
