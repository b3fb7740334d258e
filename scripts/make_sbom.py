"""Makes the SBOM of a release: a CycloneDX 1.5 document of the packages that requirements.txt locks, with hashes,
licences, and the libraries in their wheels.

`python scripts/make_sbom.py REQUIREMENTS [WITH-EXTRA]…`, printed. What only the further files lock is optional.
Licences and libraries are those of the packages installed beside this Python, which have to be the ones locked. It has
no time and no random number in it: the same locks give the same document on the same platform.
"""

import json
import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from bundled_parts import license_of, parts_of

PROJECT = Path(__file__).resolve().parent.parent
_PINNED = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)(\[[^\]]*\])?==(?P<version>[^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def components(text: str) -> list[dict[str, Any]]:
    """Every locked package, with the hashes of all its files."""
    found: list[dict[str, Any]] = []
    for line in text.splitlines():
        if pinned := _PINNED.match(line):
            name, version = pinned["name"].lower().replace("_", "-"), pinned["version"]
            purl = f"pkg:pypi/{name}@{version}"
            part = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
            found.append(part | _inside(name, version))
        for digest in _HASH.findall(line):
            files = found[-1].setdefault("externalReferences", [{"type": "distribution", "url": found[-1]["purl"]}])
            files[0].setdefault("hashes", []).append({"alg": "SHA-256", "content": digest})
    return found


def _inside(name: str, version: str) -> dict[str, Any]:
    """The licence of a package and the libraries in its wheel; raises LookupError if they are unknown."""
    try:
        package = distribution(name)
    except PackageNotFoundError:
        raise LookupError(f"{name} is not installed") from None
    if package.version != version:
        raise LookupError(f"{name} is installed as {package.version}, and locked as {version}")
    parts = parts_of(name, package)
    return {"licenses": license_of(name, package), **({"components": parts} if parts else {})}


def document(requirements: Path, *with_extras: Path) -> dict[str, Any]:
    """The whole document."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
    purl = f"pkg:pypi/{project['name']}@{project['version']}"
    parts = components(requirements.read_text("utf-8"))
    required = {part["bom-ref"] for part in parts}
    more = {part["bom-ref"]: part for file in with_extras for part in components(file.read_text("utf-8"))}
    optional = [part | {"scope": "optional"} for name, part in more.items() if name not in required]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": purl,
                "name": project["name"],
                "version": project["version"],
                "licenses": [{"license": {"id": project["license"]}}],
                "purl": purl,
            }
        },
        "components": parts + optional,
        "dependencies": [{"ref": purl, "dependsOn": [part["bom-ref"] for part in parts + optional]}],
    }


if __name__ == "__main__":
    try:
        listed = document(*map(Path, sys.argv[1:]))
    except LookupError as error:
        sys.exit(f"The list of parts cannot be made: {error.args[0]}")
    json.dump(listed, sys.stdout, indent=1)
    sys.stdout.write("\n")
