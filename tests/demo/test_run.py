"""Where the demonstration puts its domain controller."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from demo import run
from demo.run import Demonstration
from demo.supervisor import Supervisor
from lab.samba import controller
from lab.samba.controller import LDAP_PORTS


@contextmanager
def taken(*addresses: str) -> Iterator[None]:
    """Another domain controller has one of its ports there."""
    with ExitStack() as stack:
        for address in addresses:
            stack.enter_context(socket.create_server((address, LDAP_PORTS[1])))
        yield


@pytest.fixture
def demonstration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Makes one that has run before at an address, or never."""

    def make(earlier: str | None) -> Demonstration:
        credentials = tmp_path / "credentials.json"
        if earlier:
            credentials.write_text(json.dumps({"directory": {"url": f"ldaps://{earlier}", "bindPassword": "x"}}))
        monkeypatch.setattr(run, "CREDENTIALS", credentials)
        monkeypatch.setattr(run, "DIRECTORY", tmp_path)
        return Demonstration(cast(Supervisor, None), tmp_path)

    return make


def test_it_stays_where_it_was(demonstration: Any, capsys: pytest.CaptureFixture[str]) -> None:
    demo = demonstration("127.0.9.77")
    assert demo._controller.address == "127.0.9.77"
    assert capsys.readouterr().out == ""


def test_it_moves_when_somebody_else_is_there(
    demonstration: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with taken("127.0.9.78"):
        demo = demonstration("127.0.9.78")
    moved = demo._controller.address
    assert moved != "127.0.9.78"
    assert capsys.readouterr().out == f"127.0.9.78 is in use; the domain controller moves to {moved}.\n"
    monkeypatch.setattr(type(demo._controller), "is_provisioned", True)
    demo._prepare_domain()
    assert demo._credentials["directory"] == {"url": f"ldaps://{moved}", "bindPassword": "x"}


def test_no_address_is_free(demonstration: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "is_port_free", lambda *_: False)
    with pytest.raises(RuntimeError, match=r"127\.0\.9\.x"):
        demonstration("127.0.9.77")


def test_two_that_start_at_once_choose_different_addresses(
    demonstration: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = demonstration(None), demonstration(None)
    chosen = first._controller.address
    assert second._controller.address != chosen
    assert capsys.readouterr().out == ""
    moved = demonstration(chosen)
    assert moved._controller.address not in (chosen, second._controller.address)
    assert len(capsys.readouterr().out.splitlines()) == 1
