"""Tries what deploy/ has for a host with systemd, installed by the commands of `docs/operations.md`.

`scripts/try-units` runs it, in a network and with mounts of its own: `python -m tests.deploy.under_systemd FOLDER`. The
folder has a Debian with the packages, and the release in /root/release. What held is said, one after the other; the
first thing that does not is an error.
"""

import json
import re
import shutil
import sys
import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lab.domain import Domain, running_domain
from lab.samba.certificates import CertificateAuthority
from tests.deploy.documented import commands
from tests.deploy.systemd_host import Host, say, until
from tests.support.steadily import asked_steadily

HOST = "gateway.example.com"
PASSWORD = "correct horse battery staple"
PERMISSIONS = ["directory.read_object", "directory.update_user"]
SECRETS = "/etc/gateway/secrets"
SERVICES = ("gateway-web", "gateway-worker")
(ALIAS,) = (line for line in commands("Install") if line.startswith("alias "))
TIMERS = ("gateway-backup", "gateway-verify")


class Client:
    """Somebody elsewhere in the network: curl, by HTTPS through nginx."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.authority = CertificateAuthority(folder)
        self.authority.create("Authority of the trial")
        self.csrf_token = ""

    def status(self, path: str, *options: str) -> int:
        """What a request is answered with; 0 where there is no answer."""
        done = self._curl(path, "--output", "/dev/null", "--write-out", "%{http_code}", *options)
        return int(done or 0)

    def ask(self, path: str, body: Any = None, *options: str, method: str = "POST") -> Any:
        """The JSON that answers; one that is refused is an error."""
        if body is not None:
            options = (*options, "--request", method, "--json", json.dumps(body))
        answer = self._curl(path, *options, "--header", f"X-CSRFToken: {self.csrf_token}")
        found = json.loads(answer)
        if "code" in found and "detail" in found:
            raise RuntimeError(f"{path}: {answer}")
        return found

    def sign_in(self) -> None:
        """As the administrator that `gateway setup` has made."""
        signed_in = self.ask("/rest/session", {"username": "grace", "password": PASSWORD})
        self.csrf_token = signed_in["csrfToken"]

    def _curl(self, path: str, *options: str) -> str:
        return Host.command(
            *("curl", "-sS", "--max-time", "60", "--cacert", str(self.authority.certificate_file)),
            *("--resolve", f"{HOST}:443:127.0.0.1", "--referer", f"https://{HOST}/"),
            *("--cookie", f"{self._folder}/cookies", "--cookie-jar", f"{self._folder}/cookies"),
            *(*options, f"https://{HOST}{path}"),
            check=False,
        )


def is_installed(host: Host, client: Client, domain: Domain) -> None:
    """What docs/operations.md tells, with a certificate and answers for `gateway setup`."""
    tls = host.root / "etc" / "gateway" / "tls"
    tls.mkdir(mode=0o700, parents=True)
    client.authority.issue([HOST], certificate_file=tls / "fullchain.pem", key_file=tls / "privkey.pem")
    secrets = Path(f"{host.root}{SECRETS}")
    for name, text in {"authority.pem": domain.ca_pem, "bind-password": domain.bind_password}.items():
        (secrets / name).write_text(text)
        shutil.chown(secrets / name, secrets.stat().st_uid)
    answers = (
        f"gateway setup --no-input --username grace --password-file - --directory-name Corp --url {domain.url}"
        f" --base-dn '{domain.base_dn}' --bind-dn '{domain.bind_dn}' --bind-password-file {SECRETS}/bind-password"
        f" --ca-file {SECRETS}/authority.pem <<<'{PASSWORD}'"
    )
    install = commands("Install")
    prepared = next(index for index, line in enumerate(install) if line.endswith(".whl"))
    set_up = commands("Set up")
    assert set_up[0] == "gateway setup"
    unpack = [line for line in install[:prepared] if line.startswith("tar ")]
    told = host.shell([*unpack, *install[prepared:], *commands("Start"), answers])
    assert f"{domain.url}: works" in told, told
    until(lambda: host.succeeds([ALIAS, *set_up[1:]]), "the worker is there")
    say("installed by the commands of docs/operations.md")


def runs(host: Host) -> None:
    """Both services, confined, with the decoder in C although no memory may be written and executed."""
    for service in SERVICES:
        host.until_active(service)
        for process in host.processes(service):
            status = (Path("/proc") / process / "status").read_text()
            for line in (r"NoNewPrivs:\s1", r"Seccomp:\s2", r"CapBnd:\s0{16}", r"CapEff:\s0{16}"):
                assert re.search(line, status), (service, line, status)
        say(f"{service} is active (running), without privileges, under its filter of system calls")


def serves(host: Host, client: Client, domain: Domain) -> str:
    """From nginx to the directory and the log: the request by which a change was made with a key."""
    until(lambda: client.status("/health/ready") == 200, "ready behind nginx")
    client.sign_in()
    (directory,) = client.ask("/rest/directories")["items"]
    role = client.ask("/rest/roles", {"name": "Trial", "permissions": PERMISSIONS})
    wanted = {"name": "Trial", "owner": "grace", "role": role["id"], "supervisionLevel": "act"}
    key = client.ask("/rest/api-keys", wanted)
    client.ask(f"/rest/api-keys/{key['id']}/links", {"directory": directory["id"]})
    credential = ("--header", f"X-API-Key: {key['value']}")
    with closing(domain.connect()) as at:
        someone = at.add_user("Ada Lovelace", parent=at.add_unit("Staff"))
        client.ask(f"/api/ad/users/{someone}", {"replace": {"title": "Countess"}}, *credential, method="PATCH")
        assert at.text(someone, "title") == "Countess"
    (record,) = client.ask(f"/rest/operations?target={someone}&operation=users.update")["items"]
    assert (record["outcome"], record["keyName"], record["clientAddress"]) == ("succeeded", "Trial", "127.0.0.1"), (
        record
    )
    maps = [(Path("/proc") / process / "maps").read_text() for process in host.processes("gateway-web")]
    assert any("/_answers.abi3.so" in text for text in maps)
    say("a change by API key through nginx is in the directory and in the log")
    return str(record["requestId"])


def worker_works(client: Client) -> None:
    """Something that only a worker does."""
    before = client.ask("/rest/operations/chain")["lastVerification"]
    client.ask("/rest/operations/verify", {})

    def is_verified() -> bool:
        chain = client.ask("/rest/operations/chain")
        return not chain["verifying"] and chain["lastVerification"] not in (None, before)

    until(is_verified, "the log verified by a worker")


def is_logged(host: Host, request_id: str) -> None:
    """In the journal, as JSON."""
    for service in SERVICES:
        lines = [
            json.loads(line)
            for line in host.run("journalctl", "-o", "cat", "-u", service).splitlines()
            if line[0] == "{"
        ]
        assert lines, service
    assert request_id in host.run("journalctl", "-o", "cat", "-u", "gateway-web")
    say("the journal has what both say, as JSON")


def is_reloaded_and_restarted(host: Host, client: Client) -> None:
    """Reloaded without a request that is not answered; back after each way to end."""
    before = host.processes("gateway-web")
    main = host.main_process("gateway-web")
    with asked_steadily(lambda: client.status("/health"), every=0.1) as answered:
        host.run("systemctl", "reload", "gateway-web")
        until(lambda: not set(host.processes("gateway-web")) & set(before) - {main}, "each web process a new one")
    assert host.main_process("gateway-web") == main
    assert set(answered) == {200}, answered
    assert len(answered) > 1
    say(f"reloaded while {len(answered)} requests were answered, all by 200")
    for service in SERVICES:
        host.run("systemctl", "restart", service)
        host.until_active(service)
        for whom in ("main", "all"):
            restarts = host.restarts(service)
            host.run("systemctl", "kill", "--signal=KILL", f"--kill-who={whom}", service)
            until(lambda: host.restarts(service) > restarts, f"{service} started again")  # noqa: B023 - called at once
            host.until_active(service)
        until(lambda: client.status("/health/ready") == 200, "ready again")
        say(f"{service} was restarted, and is back after its processes were killed")
    worker_works(client)
    host.run("systemctl", "restart", "redis-server", "postgresql")
    until(lambda: client.status("/health/ready") == 200, "ready after PostgreSQL and Redis were restarted")
    worker_works(client)
    say("both go on after PostgreSQL and Redis were restarted")


def is_looked_after(host: Host) -> None:
    """Backup and verification: when they come next, and that they succeed."""
    for timer in TIMERS:
        assert host.run("systemctl", "is-enabled", f"{timer}.timer").strip() == "enabled"
        next_time = host.show(f"{timer}.timer", "NextElapseUSecRealtime")
        assert next_time
        host.run("systemctl", "start", f"{timer}.service")
        assert host.show(f"{timer}.service", "Result") == "success"
        say(f"{timer}.service succeeded; its timer comes next on {next_time}")
    (dump,) = (host.root / "var/backups/gateway").glob("*.dump")
    assert dump.stat().st_mode & 0o777 == 0o600


def writes_files(host: Host, client: Client) -> None:
    """Where the server's log goes to files instead, these are rotated under the running processes."""
    host.shell(commands("Logs"))
    host.until_active("gateway-web")
    until(lambda: client.status("/health") == 200, "ready with a log in a file")
    log = host.root / "var/log/gateway/web.log"
    client.status("/rest/me")
    until(lambda: bool(log.read_bytes()), "a line in the file")
    said = log.read_bytes()
    host.run("logrotate", "--force", "/etc/logrotate.d/directory-management-gateway")
    assert log.with_name("web.log.1").read_bytes().startswith(said)
    host.run("systemctl", "reload", "gateway-web")
    until(lambda: bool(log.read_bytes()), "a line in the emptied file")
    assert not log.read_bytes().startswith(b"\0")
    say("logrotate rotates the files of the running processes")


def is_stopped(host: Host, client: Client) -> None:
    """Nothing of it is left."""
    for service in SERVICES:
        begun = time.monotonic()
        host.run("systemctl", "stop", service)
        assert host.show(service, "Result") == "success"
        assert not host.processes(service)
        say(f"{service} ended within {time.monotonic() - begun:.1f} s")
    assert not host.processes_of(Path(f"{host.root}{SECRETS}").stat().st_uid)
    assert client.status("/health") == 502
    say("nothing of it is left: nginx answers 502")


def is_restored(host: Host, client: Client) -> None:
    """By the commands of the documents, over what happened since the backup."""
    (dump,) = (host.root / "var/backups/gateway").glob("*.dump")
    lines = [
        re.sub(r" +\(.*\)$", "", line).replace("gateway-20260101T013000Z.dump", dump.name)
        for line in commands("Back up and restore")
    ]
    assert any(dump.name in line for line in lines)
    told = host.shell([ALIAS, *lines])
    assert "operations log is as it was written" in told, told
    until(lambda: client.status("/health/ready") == 200, "ready after the restoration")
    say("the backup was restored")


def comes_back(host: Host, client: Client) -> None:
    """After the host was switched off and on."""
    host.power_off()
    host.boot()
    assert host.until_booted() == "running", host.run("systemctl", "--failed", "--no-pager")
    until(lambda: client.status("/health/ready") == 200, "ready after the host was booted")
    client.sign_in()
    worker_works(client)
    say("everything is back after the host was switched off and on, and no unit has failed")


def main(root: Path) -> None:
    """All of it, in turn."""
    with TemporaryDirectory() as folder, running_domain(Path(folder) / "domain") as domain, Host(root) as host:
        client = Client(Path(folder))
        host.boot()
        host.until_booted()
        is_installed(host, client, domain)
        runs(host)
        request_id = serves(host, client, domain)
        worker_works(client)
        is_logged(host, request_id)
        is_looked_after(host)
        is_reloaded_and_restarted(host, client)
        runs(host)
        is_restored(host, client)
        writes_files(host, client)
        comes_back(host, client)
        is_stopped(host, client)
        host.power_off()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
