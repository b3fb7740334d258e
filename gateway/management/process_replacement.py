"""Commands that become another process: web server and worker take the place of the command that starts them."""

import os
import sys
from typing import Final, NoReturn

from django.conf import settings

from core.configuration import SECRET_VARIABLES

_PATHS: Final = ("GATEWAY_CONFIG", "GATEWAY_DATA_DIR", *(f"{name}_FILE" for name in SECRET_VARIABLES))


def become(command: list[str]) -> NoReturn:
    """Run the command in this process, so that signals and exit statuses reach whoever started it.

    It runs in the folder of the gateway's packages: granian and Celery both look for modules where they are started.
    """
    environment = dict(os.environ)
    for name in _PATHS:
        if environment.get(name):
            environment[name] = os.path.abspath(environment[name])
    sys.stdout.flush()
    sys.stderr.flush()
    os.chdir(settings.BASE_DIR)
    os.execve(command[0], command, environment)  # noqa: S606 - a command of ours, and no shell is wanted
