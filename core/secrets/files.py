"""Secrets from files: `GATEWAY_SECRET_KEY_FILE=/run/secrets/key` stands for the variable without `_FILE`.

Container engines, Kubernetes and systemd (`LoadCredential=`) hand secrets over as files, which neither `/proc` nor a
crash report shows as it does the environment.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from core.configuration import SECRET_VARIABLES, BadConfiguration

_SUFFIX: Final = "_FILE"


def with_secrets_from_files(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment, and in it each secret that a file holds; line breaks around it do not belong to it.

    Raises BadConfiguration where a file cannot be read or is empty, and where a secret is given in both ways: which of
    the two counts would be a guess.
    """
    given = dict(environment)
    for name in SECRET_VARIABLES:
        file = environment.get(f"{name}{_SUFFIX}")
        if not file:
            continue
        if environment.get(name):
            raise BadConfiguration(f"{name}{_SUFFIX}: {name} is set too; set one of them")
        try:
            value = Path(file).read_text("utf-8").strip("\r\n")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is no text"
            raise BadConfiguration(f"{name}{_SUFFIX}={file}: cannot be read: {reason}") from None
        if not value:
            raise BadConfiguration(f"{name}{_SUFFIX}={file}: is empty")
        given[name] = value
    return given
