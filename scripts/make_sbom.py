"""The parts of a release for scanners: a CycloneDX 1.5 document of what requirements.txt locks, with hashes.

`python scripts/make_sbom.py REQUIREMENTS [WITH-EXTRAS]`, printed. What only the second file locks is optional. It has
no time and no random number in it: the same locks give the same document.
"""

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
_PINNED = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)(\[[^\]]*\])?==(?P<version>[^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def components(text: str) -> list[dict[str, Any]]:
    """Every locked package. The hashes are those of its files, of which an installation takes one."""
    found: list[dict[str, Any]] = []
    for line in text.splitlines():
        if pinned := _PINNED.match(line):
            name, version = pinned["name"].lower().replace("_", "-"), pinned["version"]
            purl = f"pkg:pypi/{name}@{version}"
            found.append({"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl})
        for digest in _HASH.findall(line):
            files = found[-1].setdefault("externalReferences", [{"type": "distribution", "url": found[-1]["purl"]}])
            files[0].setdefault("hashes", []).append({"alg": "SHA-256", "content": digest})
    return found


def document(requirements: Path, with_extras: Path | None = None) -> dict[str, Any]:
    """The whole."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
    purl = f"pkg:pypi/{project['name']}@{project['version']}"
    parts = components(requirements.read_text("utf-8"))
    required = {part["bom-ref"] for part in parts}
    more = components(with_extras.read_text("utf-8")) if with_extras else []
    optional = [part | {"scope": "optional"} for part in more if part["bom-ref"] not in required]
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
    json.dump(document(*map(Path, sys.argv[1:3])), sys.stdout, indent=1)
    sys.stdout.write("\n")
