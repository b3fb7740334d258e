"""The words behind names: of tables, states and members, as people read them in their language.

Labels of operations and of the kinds of directory objects are where these are declared.
"""

from collections.abc import Mapping
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import get_language, gettext, pgettext, pgettext_lazy
from django.utils.translation import gettext_noop as _


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

_WORDS: Final = (
    # rows of the gateway's own tables, one and many
    _("objects of any kind"),
    _("another object"),
    _("account"),
    _("accounts"),
    _("API key"),
    _("API keys"),
    _("api key"),
    _("api keys"),
    _("person"),
    _("people"),
    _("role"),
    _("roles"),
    _("directory"),
    _("directories"),
    _("directory connection"),
    _("directory connections"),
    _("agent"),
    _("agents"),
    _("agent client"),
    _("agent clients"),
    _("permission group"),
    _("permission groups"),
    _("saved filter"),
    _("saved filters"),
    _("change request"),
    _("change requests"),
    _("webhook endpoint"),
    _("webhook endpoints"),
    _("webhook delivery"),
    _("webhook deliveries"),
    _("key"),
    # what is done, by itself
    _("create"),
    _("update"),
    _("delete"),
    _("move"),
    _("rename"),
    _("enable"),
    _("disable"),
    _("unlock"),
    _("restore"),
    _("revert"),
    _("change members"),
    _("change password"),
    _("reset password"),
    _("enable accounts"),
    _("disable accounts"),
    # how something stands
    _("pending"),
    _("approved"),
    _("applying"),
    _("applied"),
    _("failed"),
    _("partly failed"),
    _("stale"),
    _("rejected"),
    _("expired"),
    _("cancelled"),
    _("succeeded"),
    _("queued"),
    _("running"),
    _("completed"),
    _("unchanged"),
    _("active"),
    _("revoked"),
    # what the gateway works with
    _("database"),
    _("redis"),
    _("workers"),
    # members of the gateway's own tables
    _("allowed addresses"),
    _("description"),
    _("directory group objects"),
    _("directory groups"),
    _("display name"),
    _("email"),
    _("expires at"),
    _("links"),
    _("members"),
    _("name"),
    _("owner"),
    _("password"),
    _("passwords to requester"),
    _("previous valid until"),
    _("previous value"),
    _("recovery codes"),
    _("revoked at"),
    _("revoked by"),
    _("role name"),
    _("scope objects"),
    _("scopes"),
    _("second factor"),
    _("sessions ended"),
    _("staff"),
    _("superuser"),
    _("supervision level"),
    _("username"),
    _("value"),
    _("assigned to"),
    _("comment"),
    _("comments"),
    _("decided by"),
    _("first approved by"),
    _("first comment"),
    _("secret"),
    _("status"),
    _("attributes"),
    _("base"),
    _("base dn"),
    _("base id"),
    _("bind dn"),
    _("bind password"),
    _("ca certificate"),
    _("client id"),
    _("enabled"),
    _("filter"),
    _("kind"),
    _("scope"),
    _("shared"),
    _("start tls"),
    _("urls"),
    # how far a search or a group reaches
    _("subtree"),
    _("one level"),
    _("global"),
    _("domain local"),
    _("universal"),
    _("security"),
    _("distribution"),
)
"""Names that nothing declares with a label; listed for `scripts/make-translations`, which collects them here."""
