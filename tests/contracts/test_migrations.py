"""Migrations stand by themselves: what the code becomes later does not change what they did."""

import ast
import sys
from pathlib import Path
from uuid import uuid4

import pytest
from django.db import models

from audit import log
from audit.chain.seals import is_authentic
from audit.migrations._codes import mac_of
from audit.models import new_record_id
from directory.migrations._bind_password_seal import encrypted_seal
from directory.models.bind_password_seal import DESTINATION_FIELDS, seal_of
from gateway.core.secrets.encryption import EncryptedTextField, decrypt, encrypt
from gateway.management.autodetector import OWN_PACKAGES, without_own_code
from keys.migrations import _name_keys
from keys.models import require_legible
from keys.people.names import name_key
from tests.audit.calls import make_call

ROOT = Path(__file__).parents[2]
FILES = sorted(path for package in OWN_PACKAGES for path in ROOT.glob(f"{package}/migrations/*.py"))
# The toolkit's functions are the defaults of the tables that it declares.
OTHERS = {"django", "cryptography", "oauth2_provider"}


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: name the module"
            found.add(node.module or "")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parts[-3]}.{path.stem}")
def test_no_migration_imports_the_code_of_an_app(path: Path) -> None:
    beside = f"{path.parts[-3]}.migrations._"
    for module in imported(path):
        assert module.partition(".")[0] in sys.stdlib_module_names | OTHERS or module.startswith(beside), module


def test_what_python_alone_knows_is_no_part_of_a_migration() -> None:
    name = without_own_code(models.CharField(max_length=5, validators=[require_legible], default="x"))
    assert name.deconstruct()[3] == {"max_length": 5, "default": "x"}
    assert without_own_code(models.UUIDField(default=uuid4)).deconstruct()[3] == {"default": uuid4}
    assert without_own_code(models.UUIDField(default=new_record_id)).deconstruct()[3] == {}
    assert type(without_own_code(EncryptedTextField(blank=True))) is models.TextField


# What migrations keep of our code is what the code goes on from.


@pytest.mark.django_db
def test_the_code_that_a_migration_gave_a_record_is_authentic() -> None:
    record = log.record_intent(make_call(), log.Intent(operation="users.update", evidence={"mail": 3}))
    record.mac = mac_of({field.attname: getattr(record, field.attname) for field in record._meta.concrete_fields})
    assert is_authentic(record)
    record.reason = "something else"
    assert not is_authentic(record)


def test_the_seal_that_a_migration_gave_a_connection_fits() -> None:
    class Row:
        urls = ["ldaps://dc2/", "LDAPS://dc1"]
        start_tls, ca_certificate, bind_dn = False, " pem\ntext ", "CN=gateway "
        bind_password = encrypt("secret")

    destination = {name: getattr(Row, name) for name in DESTINATION_FIELDS}
    assert decrypt(encrypted_seal(Row)) == seal_of(**destination, password="secret")


@pytest.mark.parametrize("name", ["Grace.Hopper", "ｇrace", "ѕсоре", "ΟΧ", "山田taro"])
def test_the_key_that_a_migration_gave_a_name_is_its_key(name: str) -> None:
    assert _name_keys.name_key(name) == name_key(name)
