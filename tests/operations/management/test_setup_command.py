"""`gateway setup` at a terminal and without one; a real connection is set up by the installation's test."""

import os
import pty
import sys
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from audit.models import OperationRecord
from directory.models import DirectoryConnection
from keys.models import Person

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery staple"
NOWHERE = {
    "directory_name": "Corp",
    "url": ["ldaps://127.0.0.1:1"],
    "base_dn": "DC=corp,DC=example,DC=test",
    "bind_dn": "gateway@corp.example.test",
}


def set_up(**options: Any) -> str:
    out = StringIO()
    call_command("setup", stdout=out, **options)
    return out.getvalue()


@pytest.fixture
def password_file(tmp_path: Any) -> Any:
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n")
    return file


@pytest.fixture
def typing(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A terminal at which somebody types these lines."""

    def type_lines(*lines: str) -> None:
        keyboard, terminal = pty.openpty()
        os.write(keyboard, "".join(f"{line}\n" for line in lines).encode())
        monkeypatch.setattr(sys, "stdin", os.fdopen(terminal, "r"))
        answers = iter(lines)
        monkeypatch.setattr("builtins.input", lambda _: next(answers))
        monkeypatch.setattr("getpass.getpass", lambda _: next(answers))

    return type_lines


def test_whoever_sits_at_a_terminal_is_asked(typing: Callable[..., None]) -> None:
    typing("grace", "Grace Hopper", PASSWORD, PASSWORD)
    assert "grace can sign in" in set_up(no_directory=True)
    person = Person.objects.get()
    assert (person.username, person.display_name, person.is_superuser) == ("grace", "Grace Hopper", True)
    assert person.check_password(PASSWORD)
    record = OperationRecord.objects.get(operation="people.create")
    assert (record.owner, record.outcome) == ("(command line)", "succeeded")
    typing("Corp", "ldaps://127.0.0.1:1", "DC=x", "gateway@x.test", "secret")
    with pytest.raises(CommandError, match="nothing of it was saved"):
        set_up()
    assert not DirectoryConnection.objects.exists()


def test_two_different_passwords(typing: Callable[..., None]) -> None:
    typing("grace", "", PASSWORD, "another")
    with pytest.raises(CommandError, match="not the same"):
        set_up(no_directory=True)
    assert not Person.objects.exists()


def test_nothing_is_asked_without_a_terminal(password_file: Any) -> None:
    for options, missing in (
        ({}, "--username"),
        ({"username": "grace"}, "--password-file"),
    ):
        with pytest.raises(CommandError, match=f"{missing} is missing"):
            set_up(no_input=True, **options)
    with pytest.raises(CommandError, match="--bind-password-file is missing"):
        set_up(no_input=True, username="grace", password_file=password_file, **NOWHERE)
    assert Person.objects.get().username == "grace"  # what was made before stays, and is not made again


def test_what_cannot_be_used_is_named(password_file: Any) -> None:
    weak = password_file.with_name("weak")
    weak.write_text("short")
    with pytest.raises(CommandError, match="too short"):
        set_up(no_input=True, username="grace", password_file=weak)
    given = {"no_input": True, "username": "grace", "password_file": password_file, "bind_password_file": password_file}
    with pytest.raises(CommandError, match=r"none\.pem: No such file"):
        set_up(**given, **NOWHERE, ca_file=password_file.with_name("none.pem"))
    with pytest.raises(CommandError, match="http"):
        set_up(**given, **{**NOWHERE, "url": ["http://dc1"]})
    told = set_up(**given, **NOWHERE, anyway=True)
    assert "nothing listens on port 1" in told
    assert 'CA;Reset Password;user"' in told
    assert PASSWORD not in told
    connection = DirectoryConnection.objects.get()
    assert (connection.name, connection.bind_password) == ("Corp", PASSWORD)
    assert OperationRecord.objects.get(operation="directories.create").outcome == "succeeded"
    assert "connected already" in set_up(no_input=True)
