"""What the console's scripts say. A page brings it in its language; `gateway/words.js` looks it up by the English."""

from typing import Final

from django.utils.translation import gettext, gettext_noop

SCRIPT_WORDS: Final = (
    gettext_noop("Copied."),
    gettext_noop("Selected: press Ctrl-C to copy."),
    gettext_noop("(local time)"),
    gettext_noop("{ticked} of {count} ticked."),
    # The test read beside a new key's value.
    gettext_noop(
        "Refused with 401, as it should be: this browser is seen at {address}, which is not among the allowed "
        "addresses. Test it from where the integration runs."
    ),
    gettext_noop("Refused with {status}: {reason}"),
    gettext_noop("the key is not valid any more, or its owner was deactivated. The security log has the reason."),
    gettext_noop(
        "the key is valid, but may not do this: its role or its owner lacks “Read objects”, or the directory is "
        "disabled."
    ),
    gettext_noop("too many requests from this address. Wait a moment."),
    gettext_noop("the directory refused the gateway's own account. Test the directory connection."),
    gettext_noop("no domain controller answers. Test the directory connection."),
    gettext_noop("the gateway failed."),
    gettext_noop("GET /api/me: the key acts as {name} in {directory}, with {permissions}."),
    gettext_noop("GET /api/me: the key acts as {name} in {directory}, with {permissions}, confined to {scopes}."),
    gettext_noop("GET /api/me: the key acts as {name} in no directory, with {permissions}."),
    gettext_noop("GET /api/me: the key acts as {name} in no directory, with {permissions}, confined to {scopes}."),
    gettext_noop("1 permission"),
    gettext_noop("{count} permissions"),
    gettext_noop("1 scope"),
    gettext_noop("{count} scopes"),
    gettext_noop("There is nothing to search: the key is linked to no directory."),
    gettext_noop("GET /api/ad/users: the search found “{name}”."),
    gettext_noop("GET /api/ad/users: the search found “{name}” and more."),
    gettext_noop("GET /api/ad/users: the search works, and found nobody where the key may look."),
    gettext_noop("No answer: the gateway cannot be reached from this browser."),
)


def script_words() -> dict[str, str]:
    """The texts that read otherwise in the active language, by the English ones."""
    return {text: said for text in SCRIPT_WORDS if (said := gettext(text)) != text}
