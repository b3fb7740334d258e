"""What `docs/operations.md` tells, done: from the wheel to an administrator who is signed in behind nginx, and on."""

import json
import os
import re
import stat
import subprocess
import time
from contextlib import AbstractContextManager
from importlib.metadata import Distribution
from pathlib import Path

from lab.domain import Domain
from lab.processes import log_tail
from tests.deploy.conftest import HOST, Deployment
from tests.deploy.test_files import wanted_metrics
from tests.support.installed import WHEEL, Installation
from tests.support.steadily import asked_steadily

PASSWORD = "correct horse battery staple"


def test_installation(installation: Installation, deployment: Deployment, domain: Domain) -> None:
    """In one test, since one installation is made of all these steps and takes most of the time."""
    _collides_with_nothing(installation)
    _has_keys_of_its_own(deployment)
    _is_set_up(deployment, domain)
    deployment.start_worker()
    deployment.start_web()
    deployment.start_nginx()
    _serves_behind_nginx(deployment, domain)
    deployment.stop("nginx")
    deployment.start_caddy()
    _serves_behind_caddy(deployment)
    deployment.stop("caddy")
    _serves_from_another_host(deployment)
    _says_how_it_is(deployment)
    _lets_agents_in_with_what_they_need(deployment)
    with _steady_client(deployment) as answered:
        _rotates_its_keys(deployment)
    assert len(answered) > 10
    assert set(answered) == {200}
    _is_restored(deployment, domain)


def _collides_with_nothing(installation: Installation) -> None:
    """Of all the files that the wheel brings, the first folders."""
    site = next(installation.folder.glob("lib/python3*/site-packages"))
    brought = Distribution.at(next(site.glob(f"{WHEEL}-*.dist-info"))).files or ()
    places = {file.parts[0] for file in brought if ".." not in file.parts}
    assert {place.partition("-")[0] for place in places} == {WHEEL, "dirgate"}
    assert not [file for file in brought if "tests" in file.parts]
    asked = subprocess.run(
        [installation.folder / "bin" / "dirgate", "users"], capture_output=True, text=True, check=True
    )
    assert "reset-password" in asked.stdout


def _has_keys_of_its_own(deployment: Deployment) -> None:
    made = deployment.succeeds("keys", "new", "--directory", deployment.secrets).split()
    assert len(made) == 3
    for file in deployment.secrets.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    before = [(deployment.secrets / name).read_text() for name in ("secret-key", "encryption-keys", "log-keys")]
    assert deployment.run("keys", "new", "--directory", deployment.secrets).returncode == 1
    assert [(deployment.secrets / name).read_text() for name in ("secret-key", "encryption-keys", "log-keys")] == before


def _is_set_up(deployment: Deployment, domain: Domain) -> None:
    told = deployment.run("check", "--services")
    assert told.returncode == 1
    assert "tables: to be migrated" in told.stdout
    deployment.succeeds("migrate", "-v0")
    if user := deployment.installed.user:  # what another account's process started leaves nothing in that one's name
        count_in = f"gateway-{user.pw_uid}-*/*-{os.getpid()}"
        assert not list(Path("/dev/shm").glob(count_in))  # noqa: S108 - where processes count
    certificate = deployment.secrets / "authority.pem"
    certificate.write_text(domain.ca_pem)
    certificate.chmod(0o644)
    bind_password = deployment.secret("bind-password", domain.bind_password)
    options: list[str | Path] = [
        *("--no-input", "--username", "grace", "--display-name", "Grace Hopper", "--password-file", "-"),
        *("--directory-name", "Corp", "--url", domain.url, "--base-dn", domain.base_dn, "--ca-file", certificate),
        *("--bind-dn", domain.bind_dn),
    ]
    told_now = deployment.succeeds("setup", *options, "--bind-password-file", bind_password, answers=f"{PASSWORD}\n")
    assert "grace can sign in" in told_now
    assert f"{domain.url}: works" in told_now
    assert "CA;Reset Password;user" in told_now
    assert domain.bind_password not in told_now


def _serves_behind_nginx(deployment: Deployment, domain: Domain) -> None:
    page = deployment.curl(f"https://{HOST}/console/sign-in", "--fail", "--include")
    assert "strict-transport-security: max-age=31536000" in page.stdout.lower()
    assert "Sign in" in page.stdout
    assert "Anmelden" in deployment.curl(f"https://{HOST}/console/sign-in", "--header", "Accept-Language: de").stdout
    assert deployment.curl(f"https://{HOST}/static/console/console.css", "--fail").returncode == 0
    for hidden in ("/api/openapi.json", "/rest/docs", "/metrics"):
        assert _status(deployment, hidden) == 404
    signed_in = _answer(deployment, "/rest/session", "--json", json.dumps({"username": "grace", "password": PASSWORD}))
    cookie = next(
        line
        for line in (deployment.folder / "cookies").read_text().splitlines()
        if line.endswith("sessionid") or "\tsessionid\t" in line
    )
    assert cookie.split("\t")[3] == "TRUE", "the session's cookie is for TLS alone"
    found = _answer(deployment, "/rest/ad/users?q=Administrator&attributes=cn")
    assert [item["attributes"]["cn"] for item in found["items"]]
    # The client's own word on its address is nothing, and a header with an underscore is no header.
    unit = _answer(
        deployment,
        "/rest/ad/organization-units",
        *("--header", f"X-CSRFToken: {signed_in['csrfToken']}", "--header", f"Referer: https://{HOST}/"),
        *("--header", "X-Forwarded-For: 192.0.2.7", "--header", "X_Forwarded_For: 192.0.2.8"),
        *("--json", json.dumps({"name": "Made by the installation's test", "parent": domain.base_dn})),
    )
    (record,) = _answer(deployment, f"/rest/operations?target={unit['id']}")["items"]
    assert record["clientAddress"] == "127.0.0.1"
    assert _status(deployment, f"/rest/ad/organization-units/{unit['id']}", "--request", "DELETE") == 403
    too_large = deployment.folder / "too-large"
    too_large.write_bytes(b" " * 1_100_000)
    answered = _answer(
        deployment, "/rest/roles", "--header", "Content-Type: application/json", "--data-binary", f"@{too_large}"
    )
    assert answered["code"] == "Request.BodyTooLarge"
    _has_one_id(deployment)


def _has_one_id(deployment: Deployment) -> None:
    """One id of a request in the logs of the proxy and the gateway, also where the client gave none."""
    _answer(deployment, "/rest/ad/users?q=Administrator", "--header", "X-Request-Id: from-the-client")
    nameless = deployment.curl(f"https://{HOST}/rest/me", "--include").stdout
    (given,) = re.findall(r"(?im)^x-request-id: (\S+)", nameless)
    logged = deployment.log("nginx.requests").read_text()
    assert "q=Administrator" not in logged, "what people search for is in no proxy's log"
    for name, operation in (("from-the-client", "users.search"), (given, "me.read")):
        assert f"request_id={name}" in logged
        line = _line_of(deployment, name)
        assert (line["operation"], line["owner"]) == (operation, "grace")


def _line_of(deployment: Deployment, request_id: str) -> dict[str, str]:
    """The gateway's line for a request."""
    deadline = time.monotonic() + 60  # lines wait a moment for others
    while True:
        lines = (line for line in deployment.log("web").read_text().splitlines() if f'"{request_id}"' in line)
        for line in map(json.loads, lines):
            if line["logger"] == "gateway.access":
                return dict(line)
        assert time.monotonic() < deadline, request_id
        time.sleep(0.1)


def _serves_behind_caddy(deployment: Deployment) -> None:
    """With the session that was begun behind nginx."""
    assert _answer(deployment, "/rest/me")["subject"]["username"] == "grace"
    assert _status(deployment, "/metrics") == 404
    again = json.dumps({"username": "grace", "password": PASSWORD})
    _answer(deployment, "/rest/session", "--header", "X-Forwarded-For: 192.0.2.7", "--json", again)
    assert {session["address"] for session in _answer(deployment, "/rest/sessions")["items"]} == {"127.0.0.1"}
    key = "dgk_" + "k" * 50
    searched = ("/api/ad/users?q=Lovelace", "--header", f"X-API-Key: {key}")
    assert _status(deployment, *searched) == 401
    named = deployment.curl(f"https://{HOST}/rest/me", "--include").stdout
    (given,) = re.findall(r"(?im)^x-request-id: (\S+)", named)
    assert _line_of(deployment, given)["operation"] == "me.read"
    deployment.stop("web")
    assert _status(deployment, *searched) == 502, "of which Caddy tells in another log"
    logged = deployment.log("caddy").read_text()
    assert given in logged
    assert key not in logged
    assert "Lovelace" not in logged


def _serves_from_another_host(deployment: Deployment) -> None:
    """As the documents say of more hosts: TLS between the proxy and the host, and its measurements for Prometheus."""
    settings = deployment.env_file.read_text()
    deployment.env_file.write_text(settings + deployment.settings_of_a_host())
    try:
        deployment.start_web(scheme="https")
        deployment.start_nginx(hosts=True)
        assert _answer(deployment, "/rest/me")["subject"]["username"] == "grace"
        found = deployment.curl(deployment.url_of_host("/metrics"), "--fail", "--header", "Host: gateway1:8000")
        assert "gateway_requests_total" in found.stdout
        assert deployment.curl(deployment.url_of_host("/health").replace("https", "http"), "--fail").returncode != 0
    finally:
        deployment.stop("nginx", "web")
        deployment.env_file.write_text(settings)
    deployment.start_web()
    deployment.start_nginx()


def _says_how_it_is(deployment: Deployment) -> None:
    deadline = time.monotonic() + 300  # nobody has waited for the worker yet
    while (worker := deployment.run("check", "--worker")).returncode != 0:
        assert time.monotonic() < deadline, log_tail(deployment.log("worker"), 60)
    assert "alive: celery@" in worker.stdout
    done = deployment.run("check", "--services")
    assert done.returncode == 0, done.stderr
    assert "gateway.W002" not in done.stderr  # the wheel's module in C fits
    assert {line.partition(":")[0] for line in done.stdout.splitlines() if ": ok" in line} >= {
        *("database", "broker", "directory Corp", "tables", "workers")
    }
    assert "is as it was written" in deployment.succeeds("log", "verify")
    _answer(deployment, "/rest/session", "--json", json.dumps({"username": "grace", "password": "wrong"}))
    # No directory has failed, nobody has asked too often, and no worker was lost.
    never = {"gateway_directory_failures_total", "gateway_rate_limited_total", "gateway_worker_lost_seconds"}
    deadline = time.monotonic() + 120  # a worker has yet to end a task, and a certificate to be looked at
    while (missing := wanted_metrics() - _measured(deployment)) > never:
        assert time.monotonic() < deadline, missing
        time.sleep(0.5)
    assert missing == never


def _lets_agents_in_with_what_they_need(deployment: Deployment) -> None:
    """The plain wheel is without it, and says what is missing and how to install it."""
    assert _status(deployment, "/mcp", "--json", "{}") == 404, "agents are switched off"
    settings = deployment.env_file.read_text()
    deployment.env_file.write_text(f"{settings}\nAgents__Enabled=true\n")
    deployment.restart("web")
    for path in ("/mcp", "/oauth/register"):
        assert _answer(deployment, path, "--json", "{}")["code"] == "Agents.NotInstalled"
    assert _answer(deployment, "/rest/me")["subject"]["username"] == "grace"
    command = f"{deployment.installed.folder}/bin/pip install --require-hashes -r requirements-agents.txt"
    (check,) = (each for each in _answer(deployment, "/rest/health")["checks"] if each["name"] == "agents")
    assert (check["status"], command in check["detail"]) == ("unavailable", True)
    for page in ("agents/", "home/health"):
        assert command in deployment.curl(f"https://{HOST}/console/{page}").stdout
    told = deployment.run("check")
    assert (told.returncode, "gateway.W003" in told.stderr, command in told.stderr) == (0, True, True)
    deployment.installed.install("agents")
    deployment.restart("web")
    assert _status(deployment, "/mcp", "--json", "{}") == 401
    assert "agents" not in {each["name"] for each in _answer(deployment, "/rest/health")["checks"]}
    assert "gateway.W003" not in deployment.run("check").stderr


def _measured(deployment: Deployment) -> set[str]:
    told = deployment.curl(f"http://127.0.0.1:{deployment.web_port}/metrics", "--fail").stdout
    return set(re.findall(r"^gateway_\w+", told, re.MULTILINE))


def _status(deployment: Deployment, path: str, *options: str) -> int:
    done = deployment.curl(f"https://{HOST}{path}", "--output", "/dev/null", "--write-out", "%{http_code}", *options)
    return int(done.stdout)


def _answer(deployment: Deployment, path: str, *options: str) -> dict:
    done = deployment.curl(f"https://{HOST}{path}", *options)
    assert done.returncode == 0, done.stderr
    answered: dict = json.loads(done.stdout)
    return answered


def _steady_client(deployment: Deployment) -> AbstractContextManager[list[int]]:
    """Somebody who reads the directory all the while, with what the gateway keeps encrypted: the status of each."""
    someone = _answer(deployment, "/rest/ad/users?q=Administrator")["items"][0]["id"]
    # Within the limit for each address.
    return asked_steadily(lambda: _status(deployment, f"/rest/ad/users/{someone}"), every=0.25)


def _rotates_its_keys(deployment: Deployment) -> None:
    """As `docs/operations.md` tells: known everywhere first, then used, then the old one is dropped."""
    files = {kind: deployment.secrets / name for kind, name in (("encryption", "encryption-keys"), ("log", "log-keys"))}
    for kind, file in files.items():
        file.write_text(file.read_text() + deployment.succeeds("keys", "new", kind))
    deployment.reload_web()
    deployment.restart("worker")
    for file in files.values():
        old, new = file.read_text().split()
        file.write_text(f"{new}\n{old}\n")
    deployment.reload_web()
    deployment.restart("worker")
    told = deployment.succeeds("keys", "rotate")
    assert re.search(r"^[1-9]\d* secrets were encrypted anew, 0 were", told, re.MULTILINE)
    needed = deployment.succeeds("keys", "needed")
    needed_now = files["encryption"].read_text().split()[0]
    assert "Encryption key 1 opens" in needed
    assert "Encryption key 2 is not needed now." in needed
    assert "Log key 2 made seals 1 to" in needed
    files["encryption"].write_text("no key\n")  # with a slip the old processes go on
    deployment.reload_in_vain()
    files["encryption"].write_text(needed_now)
    deployment.reload_web()


def _is_restored(deployment: Deployment, domain: Domain) -> None:
    folder = deployment.data / "backups"
    told = deployment.succeeds("backup", folder)
    (made,) = folder.glob("*.dump")
    assert str(made) in told
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    assert not any(key in made.with_suffix(".json").read_text() for key in deployment.all_keys())
    token = _answer(deployment, "/rest/session")["csrfToken"]
    headers = ("--header", f"X-CSRFToken: {token}", "--header", f"Referer: https://{HOST}/")
    body = json.dumps({"name": "Made after the backup", "parent": domain.base_dn})
    assert "id" in _answer(deployment, "/rest/ad/organization-units", *headers, "--json", body)
    refused = deployment.run("restore", "--replace", made)
    assert (refused.returncode, "Stop web processes and workers first" in refused.stderr) == (1, True)
    deployment.succeeds("log", "head")  # seals what is not sealed yet: of that nobody would know that it is missing
    deployment.stop("web", "worker")
    restored = deployment.succeeds("restore", "--replace", made)
    assert "Accepted: " in restored  # and what of the log is missing
    assert "operations log is as it was written" in restored
    deployment.start_web()
    records = _answer(deployment, "/rest/operations?operation=organization-units.create")["items"]
    assert len(records) == 1
