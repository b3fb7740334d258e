"""One installation for all tests of this folder, as `docs/operations.md` tells to make it."""

import os
import re
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from lab.commands import PROJECT
from lab.domain import Domain
from lab.postgres import Postgres
from lab.processes import log_tail, start_process, stop_process
from lab.samba.certificates import CertificateAuthority
from lab.services import free_port, is_port_free
from tests.deploy.documented import settings as documented_settings
from tests.support.environment import RUNTIME, postgres_url
from tests.support.installed import Installation, own

HOST = "gateway.example.com"
HOSTS = "gateway-hosts.example.com"
"""In the certificates of web hosts behind a proxy elsewhere."""


@pytest.fixture(scope="session")
def installation() -> Installation:
    """The wheel and what it depends on, installed."""
    return Installation(_readable(RUNTIME / "opt"))


class Deployment:
    """Everything that is not in the wheel: account's folders, secrets, database, Redis, nginx; and what runs."""

    def __init__(self, installed: Installation, database_url: str) -> None:
        self.installed = installed
        self.folder = _readable(RUNTIME / "deployment")
        self.empty, self.data, self.secrets = (self._folder(name) for name in ("empty", "data", "secrets"))
        self.redis_port, self.web_port, self.tls_port = free_port(), free_port(), free_port()
        self.redis_password = secrets.token_urlsafe()
        self.secret("redis-password", self.redis_password)
        self.secret("database-password", "the socket needs none")
        self.authority = CertificateAuthority(self.folder)
        self.authority.create("Authority of the tests")
        self.env_file = self._write_env_file(database_url)
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def _folder(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir(mode=0o700)
        return own(folder, self.installed.user)

    def _write_env_file(self, database_url: str) -> Path:
        """deploy/gateway.env with the places of this machine."""
        text = (PROJECT / "deploy" / "gateway.env").read_text()
        for there, here in {
            "/etc/gateway/secrets": str(self.secrets),
            "/var/lib/gateway": str(self.data),
            "postgresql://gateway@127.0.0.1:5432/gateway": database_url,
            "redis://127.0.0.1:6379/0": f"redis://127.0.0.1:{self.redis_port}/0",
        }.items():
            assert there in text
            text = text.replace(there, here)
        file = self.folder / "gateway.env"
        file.write_text(text)
        return own(file, self.installed.user)

    def secret(self, name: str, value: str) -> Path:
        """A file of the account's own."""
        file = self.secrets / name
        file.write_text(f"{value}\n")
        return own(file, self.installed.user)

    def all_keys(self) -> list[str]:
        """All that are configured now, as they are."""
        return [
            key
            for name in ("secret-key", "encryption-keys", "log-keys")
            for key in (self.secrets / name).read_text().split()
        ]

    def run(self, *arguments: str | Path, answers: str = "") -> subprocess.CompletedProcess[str]:
        """A command with the settings of the services."""
        return self.installed.run("--env-file", self.env_file, *arguments, at=self.empty, answers=answers)

    def succeeds(self, *arguments: str | Path, answers: str = "") -> str:
        """What a command says that has to succeed."""
        done = self.run(*arguments, answers=answers)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, name: str, command: Sequence[str | Path], **environment: str) -> None:
        """A process that runs until the deployment is stopped; the gateway's run as its account."""
        user = self.installed.user if command[0] == self.installed.command else None
        with self.log(name).open("ab") as output:
            self._running[name] = start_process(
                command,
                environment=self.installed.environment | environment,
                directory=self.empty,
                output=output,
                user=user,
            )

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def start_redis(self) -> None:
        """Redis on a port, which asks for a password."""
        self.start(
            "redis",
            [
                *("redis-server", "--bind", "127.0.0.1", "--port", str(self.redis_port), "--save", ""),
                *("--requirepass", self.redis_password),
            ],
        )

    def settings_of_a_host(self) -> str:
        """What `docs/operations.md` has of a host behind a proxy, with a certificate that the proxy trusts."""
        certificate, key = self.folder / "host.pem", self.folder / "host.key"
        self.authority.issue([HOSTS], certificate_file=certificate, key_file=key)
        for file in (certificate, key):
            own(file, self.installed.user)
        text = documented_settings("More hosts")
        for there, here in {
            "192.0.2.11": "127.0.0.1",
            "/etc/gateway/tls/host.pem": str(certificate),
            "/etc/gateway/tls/host.key": str(key),
            "192.0.2.10": "127.0.0.1",
            "192.0.2.20": "127.0.0.1",
        }.items():
            assert there in text
            text = text.replace(there, here)
        return f"\n{text}"

    def url_of_host(self, path: str) -> str:
        """An address of the host itself, by the name in its certificate."""
        return f"https://{HOSTS}:{self.web_port}{path}"

    def start_web(self, *, scheme: str = "http") -> None:
        """`gateway web`; returns when it answers."""
        command: list[str | Path] = [self.installed.command, "--env-file", self.env_file]
        self.start("web", [*command, "web", "--processes", "1", "--port", str(self.web_port)])
        self.wait("web", self.url_of_host("/health") if scheme == "https" else f"{self.plain_url}/health")

    def start_worker(self) -> None:
        """`gateway worker`; does not wait for it."""
        self.start("worker", [self.installed.command, "--env-file", self.env_file, "worker"])

    @property
    def plain_url(self) -> str:
        return f"http://127.0.0.1:{self.web_port}"

    def start_nginx(self, *, hosts: bool = False) -> None:
        """nginx with deploy/nginx/gateway.conf, but for ports and the place of the certificate.

        With `hosts`, TLS goes on behind it, as the lines say that are comments there.
        """
        certificate, key = self.folder / "tls.pem", self.folder / "tls.key"
        self.authority.issue([HOST], certificate_file=certificate, key_file=key)
        text = (PROJECT / "deploy" / "nginx" / "gateway.conf").read_text()
        if hosts:
            text = text.replace("        proxy_pass http:", "        # proxy_pass http:", 1)
            text = re.sub(r"^ {8}# (proxy_ssl|proxy_pass https)", r"        \1", text, flags=re.MULTILINE)
            text = text.replace("/etc/gateway/tls/hosts-ca.pem", str(self.authority.certificate_file))
        for there, here in {
            "/etc/gateway/tls/fullchain.pem": str(certificate),
            "/etc/gateway/tls/privkey.pem": str(key),
            "listen 443 ssl": f"listen 127.0.0.1:{self.tls_port} ssl",
            "listen 80;": f"listen 127.0.0.1:{free_port()};",
            "127.0.0.1:8000": f"127.0.0.1:{self.web_port}",
            "/var/log/nginx/gateway.log": str(self.log("nginx.requests")),
        }.items():
            assert there in text
            text = text.replace(there, here)
        places = "".join(
            f"{kind}_temp_path {self.folder}/nginx-{kind};"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        file = self.folder / "nginx.conf"
        file.write_text(
            f"daemon off; pid {self.folder}/nginx.pid; error_log stderr; worker_processes 1; events {{}}\n"
            f"http {{ access_log {self.folder}/nginx.access; {places}\n{text}\n}}\n"
        )
        # Its workers give up root for an account that could not read below the tests' folder.
        self.start("nginx", ["/usr/sbin/nginx", "-c", str(file), "-g", "user root;"])
        self.wait("nginx", f"https://{HOST}/health")

    def start_caddy(self) -> None:
        """Caddy with deploy/caddy/Caddyfile, but for ports and a certificate that it does not have to ask for."""
        text = (PROJECT / "deploy" / "caddy" / "Caddyfile").read_text()
        place = f"{HOST}:{self.tls_port} {{\n\ttls {self.folder}/tls.pem {self.folder}/tls.key\n"
        for there, here in {
            f"{HOST} {{\n": place,
            "127.0.0.1:8000": f"127.0.0.1:{self.web_port}",
            "\n{\n": "\n{\n\tadmin off\n\tauto_https off\n",
        }.items():
            assert there in text
            text = text.replace(there, here, 1)
        file = self.folder / "Caddyfile"
        file.write_text(text)
        command = ["caddy", "run", "--config", str(file), "--adapter", "caddyfile"]
        self.start("caddy", command, HOME=str(self.folder), XDG_DATA_HOME=str(self.folder))
        self.wait("caddy", f"https://{HOST}/health")

    def wait(self, name: str, url: str) -> None:
        """Until the address answers with a success."""
        port = self.web_port if name == "web" else self.tls_port
        deadline = time.monotonic() + 300
        while is_port_free("127.0.0.1", port) or self.curl(url, "--fail").returncode != 0:
            ended = self._running[name].poll()
            assert ended is None, f"{name} ended with {ended}:\n{log_tail(self.log(name))}"
            assert time.monotonic() < deadline, log_tail(self.log(name), 60)
            time.sleep(0.05)

    def curl(self, url: str, *options: str) -> subprocess.CompletedProcess[str]:
        """A client of its own; the host's name is that of the deployment, its address this machine's."""
        place = urlsplit(url)
        port = self.tls_port if place.scheme == "https" else place.port
        return subprocess.run(
            [
                *("curl", "-sS", "--max-time", "60", "--cacert", str(self.authority.certificate_file)),
                *(
                    "--connect-to",
                    f"{HOST}:443:127.0.0.1:{port}",
                    "--connect-to",
                    f"{HOSTS}:{self.web_port}:127.0.0.1:",
                ),
                *(("--header", f"Host: {HOST}") if place.scheme == "http" else ()),
                *("--cookie", f"{self.folder}/cookies", "--cookie-jar", f"{self.folder}/cookies", *options, url),
            ],
            capture_output=True,
            text=True,
            check=False,
        )

    def reload_web(self) -> None:
        """What `systemctl reload gateway-web` does; returns when every process is a new one."""
        before = self._web_processes()
        self._running["web"].send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 300
        while not self._web_processes().isdisjoint(before) or len(self._web_processes()) != len(before):
            assert time.monotonic() < deadline, log_tail(self.log("web"), 60)
            time.sleep(0.05)

    def reload_in_vain(self) -> None:
        """The same with settings that no process can start with; returns when the server has said so."""
        before = self._web_processes()
        self._running["web"].send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 300
        while "does not get ready" not in self.log("web").read_text():
            assert time.monotonic() < deadline, log_tail(self.log("web"), 60)
            time.sleep(0.05)
        assert "GATEWAY_ENCRYPTION_KEYS: key 1" in self.log("web").read_text()
        assert before <= self._web_processes()

    def _web_processes(self) -> set[str]:
        parent = self._running["web"].pid
        return set(Path(f"/proc/{parent}/task/{parent}/children").read_text().split())

    def restart(self, name: str) -> None:
        """End a process and start it again."""
        self.stop(name)
        getattr(self, f"start_{name}")()

    def stop(self, *names: str) -> None:
        """End processes as systemd does, or all of them."""
        for name in names or tuple(reversed(self._running)):
            stop_process(self._running.pop(name), request=signal.SIGTERM, patience=60)


@pytest.fixture(scope="session")
def deployment(installation: Installation, postgres: Postgres, domain: Domain) -> Iterator[Deployment]:
    """Installed, and nothing started but Redis."""
    postgres.create_database("deployed")
    made = Deployment(installation, postgres_url("deployed"))
    made.start_redis()
    yield made
    made.stop()


def _readable(folder: Path) -> Path:
    """For the account too, whatever the tests' own umask."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    os.chmod(folder, 0o755)  # noqa: S103 - a folder of the tests
    return folder
