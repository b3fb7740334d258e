"""The gateway's own secrets: made on the first start of a single machine; unusable ones stop it and are not shown."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from core.configuration import BadConfiguration
from core.secrets.keyring import FILES, encryption_keys_from, log_keys_from, secret_key_from
from lab.commands import PROJECT, manage_command

KEY = "bm8tc2VjcmV0LWJ1dC1hLWtleS1vZi10aGUtdGVzdHM="
LONG = "a-log-key-that-is-long-enough-for-it"


def all_from(environment: dict[str, str], folder: Path, *, single_machine: bool) -> tuple[str, list[str], list[str]]:
    encryption = encryption_keys_from(environment, folder, single_machine=single_machine)
    return (
        secret_key_from(environment, folder, single_machine=single_machine),
        encryption,
        log_keys_from(environment, folder, single_machine=single_machine, formerly=None),
    )


def test_each_has_a_value_of_its_own_that_stays(tmp_path: Path) -> None:
    made = all_from({}, tmp_path, single_machine=True)
    assert all_from({}, tmp_path, single_machine=True) == made
    secret, encryption, log = made
    assert len({secret, *encryption, *log}) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FILES)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_a_log_sealed_with_the_encryption_keys_verifies_on(tmp_path: Path) -> None:
    first, *others = log_keys_from({}, tmp_path, single_machine=True, formerly=["one", "two"])
    assert others == ["one", "two"]
    assert first not in others
    assert log_keys_from({}, tmp_path, single_machine=True, formerly=None) == [first, *others]


@pytest.mark.parametrize("name", ["GATEWAY_SECRET_KEY", "GATEWAY_ENCRYPTION_KEYS", "GATEWAY_LOG_KEYS"])
def test_with_several_machines_they_are_given(name: str, tmp_path: Path) -> None:
    given = {"GATEWAY_SECRET_KEY": LONG, "GATEWAY_ENCRYPTION_KEYS": KEY, "GATEWAY_LOG_KEYS": LONG}
    assert all_from(given, tmp_path, single_machine=False) == (LONG, [KEY], [LONG])
    del given[name]
    with pytest.raises(BadConfiguration, match=f"{name}: must be set"):
        all_from(given, tmp_path, single_machine=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GATEWAY_SECRET_KEY", "hidden"),
        ("GATEWAY_SECRET_KEY", "hid" * 20),
        ("GATEWAY_ENCRYPTION_KEYS", "hidden"),
        ("GATEWAY_ENCRYPTION_KEYS", f"{KEY},hidden"),
        ("GATEWAY_ENCRYPTION_KEYS", f"{KEY},"),
        ("GATEWAY_ENCRYPTION_KEYS", KEY[:-2]),
        ("GATEWAY_ENCRYPTION_KEYS", "hïdden"),
        ("GATEWAY_LOG_KEYS", "hidden"),
        ("GATEWAY_LOG_KEYS", f"hidden,{LONG}"),
        ("GATEWAY_LOG_KEYS", f"{LONG},"),
        ("GATEWAY_LOG_KEYS", ","),
    ],
)
def test_an_unusable_one_stops_the_start(name: str, value: str, tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match=f"^{name}: ") as refusal:
        all_from({name: value}, tmp_path, single_machine=True)
    assert "hid" not in str(refusal.value)
    assert KEY not in str(refusal.value)


@pytest.mark.parametrize("file", FILES)
def test_a_damaged_file_stops_the_start(file: str, tmp_path: Path) -> None:
    for damaged in (b"", b"\xff\xfe"):
        (tmp_path / file).write_bytes(damaged)
        with pytest.raises(BadConfiguration):
            all_from({}, tmp_path, single_machine=True)


def test_an_installation_from_before_gets_a_key_for_its_log(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GATEWAY_", "DATABASE_"))}
    environment = {**kept, "GATEWAY_ENVIRONMENT": "Development", "GATEWAY_DATA_DIR": str(tmp_path)}

    def check() -> list[str]:
        subprocess.run(manage_command("check"), env=environment, cwd=PROJECT, check=True, capture_output=True)
        return (tmp_path / "log-keys").read_text().split(",")

    assert len(check()) == 1
    (tmp_path / "log-keys").unlink()
    (tmp_path / "gateway.sqlite3").touch()
    new, former = check()
    assert former == (tmp_path / "encryption-keys").read_text()
    assert check() == [new, former]
