"""Secrets from files: each of them, once, and a start that stops where it would have to guess."""

import subprocess
import sys
from pathlib import Path

import pytest

from core.configuration import SECRET_VARIABLES, BadConfiguration, load_configuration
from core.deployment import database_from
from core.redis.urls import redis_from
from core.secrets.keyring import encryption_keys_from, log_keys_from, new_encryption_key, with_secrets_from_files
from lab.commands import PROJECT


@pytest.mark.parametrize("name", SECRET_VARIABLES)
def test_every_secret_can_come_from_a_file(name: str, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("hidden and kept\n")
    given = {f"{name}_FILE": str(file), "PATH": "/bin"}
    assert with_secrets_from_files(given)[name] == "hidden and kept"
    load_configuration(given)  # and its name is known
    with pytest.raises(BadConfiguration, match=rf"^{name}_FILE: {name} is set too"):
        with_secrets_from_files({**given, name: "another"})
    for wrong, said in (("", "is empty"), ("\n", "is empty")):
        file.write_text(wrong)
        with pytest.raises(BadConfiguration, match=rf"^{name}_FILE={file}: {said}"):
            with_secrets_from_files(given)
    file.unlink()
    with pytest.raises(BadConfiguration, match=rf"^{name}_FILE={file}: cannot be read: No such file"):
        with_secrets_from_files(given)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("GATEWAY_SECRET_KEYFILE", "GATEWAY_SECRET_KEY_FILE"),
        ("GATEWAY_ENCRYPTION_KEY_FILE", "GATEWAY_ENCRYPTION_KEYS_FILE"),
        ("DATABASE_PASWORD_FILE", "DATABASE_PASSWORD_FILE"),
        ("DATABSE_URL", "DATABASE_URL"),
        ("EMAIL_HOST_PASWORD", "EMAIL_HOST_PASSWORD"),
    ],
)
def test_a_misspelt_name_stops_the_start(name: str, near: str) -> None:
    with pytest.raises(BadConfiguration, match=rf"^{name}: .* the nearest is {near}$"):
        load_configuration({name: "/run/secrets/x"})


@pytest.mark.parametrize("name", ["DATABASE_HOST", "DATABASE_PORT", "REDIS_PORT", "REDIS_SERVICE_HOST", "EMAIL"])
def test_names_of_others_are_left_alone(name: str) -> None:
    assert load_configuration({name: "x"}) == load_configuration({})


def test_keys_may_stand_in_lines(tmp_path: Path) -> None:
    first, second, third = (new_encryption_key() for _ in range(3))
    given = {"GATEWAY_ENCRYPTION_KEYS": f"{first}\n{second},{third}\n", "GATEWAY_LOG_KEYS": f"{'a' * 40}\n{'b' * 40}"}
    assert encryption_keys_from(given, tmp_path, single_machine=False) == [first, second, third]
    assert log_keys_from(given, tmp_path, single_machine=False, formerly=None) == ["a" * 40, "b" * 40]


def test_a_password_beside_its_url_is_meant_literally() -> None:
    password = "p@ss/w:rd%2F#?&"
    assert database_from("postgresql://gateway@db/gateway", password)["PASSWORD"] == password
    assert redis_from("redis://redis:6379/0", password) == "redis://:p%40ss%2Fw%3Ard%252F%23%3F%26@redis:6379/0"
    assert redis_from("redis://me@redis:6379/0", "x") == "redis://me:x@redis:6379/0"
    assert redis_from("unix:///run/redis.sock?db=1", "x y") == "unix:///run/redis.sock?db=1&password=x+y"
    for refused in (
        lambda: database_from("postgresql://gateway:one@db/gateway", "two"),
        lambda: redis_from("redis://:one@redis/0", "two"),
        lambda: redis_from("unix:///run/redis.sock?password=one", "two"),
    ):
        with pytest.raises(BadConfiguration, match="has a password too") as refusal:
            refused()
        assert "one" not in str(refusal.value).replace("one of them", "")


def gateway(*arguments: str, at: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "directory_management_gateway", *arguments],
        cwd=at,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(PROJECT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_variables_from_a_file_of_variables(tmp_path: Path) -> None:
    """They are there for the command, and what was set before wins. What lies where it is started is not imported."""
    data = tmp_path / "data"
    (tmp_path / "keys.py").write_text("raise SystemExit('the wrong module')")
    file = tmp_path / "gateway.env"
    file.write_text(
        "# a comment\n\nGATEWAY_ALLOWED_HOSTS=gateway.example.com\nRateLimiting__Paths='[]'\n"
        f'GATEWAY_DATA_DIR="{data}"\nGATEWAY_ENVIRONMENT=Nowhere\n'
    )
    done = gateway("--env-file", str(file), "check", at=tmp_path, GATEWAY_ENVIRONMENT="Production")
    assert (done.returncode, "no issues" in done.stdout) == (0, True), done.stderr
    assert (data / "encryption-keys").exists()
    file.write_text("no assignment\n")
    for arguments, said in (
        (("--env-file", str(file), "check"), "line 1 of"),
        (("--env-file", str(tmp_path / "none"), "check"), "cannot be read"),
        (("--env-file",), "needs the name of a file"),
    ):
        refused = gateway(*arguments, at=tmp_path)
        assert (refused.returncode, said in refused.stderr) == (1, True), refused.stderr
