"""A management command on the demonstration's data: `make manage RUN="verify_operations_log"`."""

import os
import sys

from demo.run import DIRECTORY, environment_with
from lab.commands import PROJECT, manage_command


def main() -> None:
    if not (DIRECTORY / "gateway.sqlite3").exists():
        sys.exit("There is no demonstration yet: make run")
    command = manage_command(*sys.argv[1:])
    os.chdir(PROJECT)
    os.execve(command[0], command, environment_with(DIRECTORY / "redis.sock"))  # noqa: S606 - our own command


main()
