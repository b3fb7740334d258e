"""The words behind names: of tables, states and members, as people read them in their language.

Labels of operations and of the kinds of directory objects are where these are declared.
"""

from collections.abc import Mapping
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import get_language, gettext, pgettext, pgettext_lazy


def humanize(name: str) -> str:
    """`organizationalUnit`, `reset-password` and `user_with_spn` as words, in English."""
    text = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)
    return text.replace("-", " ").replace("_", " ").strip()


def noun_label(name: str) -> str:
    """What people call what has this name, in the reader's language; without a translation its words in English."""
    return translate_label(humanize(name))


def translate_label(text: str) -> str:
    """English words in the reader's language; those that nobody translated as they are."""
    if text == "unknown":  # of an outcome, not of an address
        return pgettext("word", "unknown")
    return gettext(text) if text else ""


def risk_words(risk: str) -> str:
    """What the risk of a change is called."""
    return str(_RISKS.get(risk, risk))


def capitalized(text: str) -> str:
    """With its first letter as it begins a sentence; German nouns keep theirs."""
    return text[:1].upper() + text[1:]


def in_sentence(label: str) -> str:
    """A label in the middle of a sentence: in English only what is written in capitals stays so."""
    if not (get_language() or "en").startswith("en"):  # German writes its nouns with capitals everywhere
        return label
    first = label.partition(" ")[0]
    return label if first.isupper() or any(letter.isupper() for letter in first[1:]) else label[:1].lower() + label[1:]


_RISKS: Final[Mapping[str, Promise]] = {
    "ordinary": pgettext_lazy("risk", "ordinary"),
    "destructive": pgettext_lazy("risk", "destructive"),
    "security": pgettext_lazy("risk", "security"),
}

WORDS: Final = (
    # rows of the gateway's own tables, one and many
    "objects of any kind",
    "another object",
    "account",
    "accounts",
    "API key",
    "API keys",
    "api key",
    "api keys",
    "person",
    "people",
    "role",
    "roles",
    "directory",
    "directories",
    "directory connection",
    "directory connections",
    "agent",
    "agents",
    "agent client",
    "agent clients",
    "permission group",
    "permission groups",
    "saved filter",
    "saved filters",
    "change request",
    "change requests",
    "webhook endpoint",
    "webhook endpoints",
    "webhook delivery",
    "webhook deliveries",
    "key",
    # what is done, by itself
    "create",
    "update",
    "delete",
    "move",
    "rename",
    "enable",
    "disable",
    "unlock",
    "restore",
    "revert",
    "change members",
    "change password",
    "reset password",
    "enable accounts",
    "disable accounts",
    # how something stands
    "pending",
    "approved",
    "applying",
    "applied",
    "failed",
    "partly failed",
    "stale",
    "rejected",
    "expired",
    "cancelled",
    "succeeded",
    "queued",
    "running",
    "completed",
    "unchanged",
    "active",
    "revoked",
    # what the gateway works with
    "database",
    "redis",
    "workers",
    # members of the gateway's own tables
    "allowed addresses",
    "description",
    "directory group objects",
    "directory groups",
    "display name",
    "email",
    "expires at",
    "links",
    "members",
    "name",
    "owner",
    "password",
    "passwords to requester",
    "previous valid until",
    "previous value",
    "recovery codes",
    "revoked at",
    "revoked by",
    "role name",
    "scope objects",
    "scopes",
    "second factor",
    "sessions ended",
    "staff",
    "superuser",
    "supervision level",
    "username",
    "value",
    "assigned to",
    "comment",
    "comments",
    "decided by",
    "first approved by",
    "first comment",
    "secret",
    "status",
    "attributes",
    "base",
    "base dn",
    "base id",
    "bind dn",
    "bind password",
    "ca certificate",
    "client id",
    "enabled",
    "filter",
    "kind",
    "scope",
    "shared",
    "start tls",
    "urls",
    # how far a search or a group reaches
    "subtree",
    "one level",
    "global",
    "domain local",
    "universal",
    "security",
    "distribution",
)
"""Names that nothing declares with a label; the catalogue has them from here."""
