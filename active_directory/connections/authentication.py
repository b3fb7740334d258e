"""A person's bind: whether a name and a password are right, and if not, why."""

import enum
import time
from collections.abc import Sequence

from active_directory.connections.attempts import deadline_of
from active_directory.connections.connection import sign_in
from active_directory.connections.settings import ServerSettings
from active_directory.errors import BadCredentials, InvalidValue, LdapError, Unavailable


class BindResult(enum.Enum):
    """What AD says to a bind. Only the reasons after the first two prove that the password was right."""

    OK = "ok"
    WRONG = "wrong"
    DISABLED = "disabled"
    EXPIRED = "expired"
    MUST_CHANGE = "must change"
    PASSWORD_EXPIRED = "password expired"  # noqa: S105 - a state, not a secret
    LOCKED = "locked"
    NOT_ALLOWED_NOW = "not allowed now"


# By `BadCredentials.sub_code`; all others, such as ERROR_NO_SUCH_USER and ERROR_LOGON_FAILURE, are WRONG.
_BY_SUB_CODE = {
    "530": BindResult.NOT_ALLOWED_NOW,  # ERROR_INVALID_LOGON_HOURS
    "531": BindResult.NOT_ALLOWED_NOW,  # ERROR_INVALID_WORKSTATION
    "532": BindResult.PASSWORD_EXPIRED,  # ERROR_PASSWORD_EXPIRED
    "533": BindResult.DISABLED,  # ERROR_ACCOUNT_DISABLED
    "701": BindResult.EXPIRED,  # ERROR_ACCOUNT_EXPIRED
    "773": BindResult.MUST_CHANGE,  # ERROR_PASSWORD_MUST_CHANGE
    "775": BindResult.LOCKED,  # ERROR_ACCOUNT_LOCKED_OUT
}


def authenticate(settings: ServerSettings, urls: Sequence[str], bind_name: str, password: str) -> BindResult:
    """Bind on a connection of its own and close it. The next server is asked only if one cannot be reached.

    `sign_in` refuses an empty password before anything is sent: AD takes it for an anonymous bind (RFC 4513 5.1.2).
    """
    problem: Unavailable | None = None
    deadline = deadline_of(settings)
    for url in urls:
        seconds = min(settings.connect_seconds, deadline - time.monotonic())
        if seconds <= 0:
            break
        try:
            sign_in(url, settings, seconds, bind_name, password).close()
        except BadCredentials as error:
            return _BY_SUB_CODE.get(error.sub_code or "", BindResult.WRONG)
        except InvalidValue:  # no account has such a name or password
            return BindResult.WRONG
        except Unavailable as error:
            problem = error
        except LdapError:
            return BindResult.WRONG
        else:
            return BindResult.OK
    raise problem or Unavailable("No domain controller answers in time")
