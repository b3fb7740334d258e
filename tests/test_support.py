"""The tests' own servers: what other tests take for granted."""

from pathlib import Path

import ldap
import pytest

from lab.directory import PASSWORD, Directory, random_name
from lab.domain import Domain
from lab.postgres import Postgres
from lab.proxy import FaultyProxy
from lab.redis import RedisServer


def test_accounts_sign_in_and_units_are_emptied(directory: Directory, organizational_unit: str) -> None:
    user = directory.add_user("Lovelace, Ada", parent=organizational_unit, password=PASSWORD)
    group = directory.add_group(parent=organizational_unit, members=[user])
    directory.add_computer(parent=organizational_unit)
    assert directory.can_sign_in(user, PASSWORD)
    assert not directory.can_sign_in(user, "wrong")
    assert directory.members(group) == {directory.dn(user)}
    directory.rename(user, "Byron, Ada")
    assert directory.dn(user) == f"CN=Byron\\, Ada,{organizational_unit}"


def test_the_policy_locks_accounts_out(directory: Directory, organizational_unit: str) -> None:
    user = directory.add_user(parent=organizational_unit, password=PASSWORD)
    directory.lock_out(user)
    assert not directory.can_sign_in(user, PASSWORD)


def test_an_authority_unknown_to_the_client_is_refused(domain: Domain, tmp_path: Path) -> None:
    connection = ldap.initialize(domain.url)
    connection.set_option(ldap.OPT_X_TLS_REQUIRE_CERT, ldap.OPT_X_TLS_DEMAND)
    connection.set_option(ldap.OPT_X_TLS_NEWCTX, 0)
    with pytest.raises(ldap.SERVER_DOWN):
        connection.simple_bind_s(domain.bind_dn, domain.bind_password)


def test_a_lost_answer_leaves_the_change_done(
    domain: Domain, directory: Directory, directory_proxy: FaultyProxy, organizational_unit: str
) -> None:
    user = directory.add_user(parent=organizational_unit)
    through = domain.connect(url=directory_proxy.url)
    marker = random_name("lost")
    directory_proxy.lose_answer()
    with pytest.raises(ldap.SERVER_DOWN):
        through.modify(user, description=marker)
    assert directory.text(user, "description") == marker
    directory_proxy.restore()
    through.reconnect()
    assert through.text(user, "description") == marker


def test_a_paused_controller_continues(domain: Domain, directory: Directory) -> None:
    domain.controller.pause()
    domain.controller.resume()
    assert directory.exists(domain.base_dn)


def test_databases_answer(postgres: Postgres, redis_server: RedisServer) -> None:
    assert postgres.directory.joinpath(".s.PGSQL.5432").is_socket()
