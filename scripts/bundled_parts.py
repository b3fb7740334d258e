"""The licences of installed packages, and the libraries that their wheels contain.

Newer wheels list their libraries themselves (`*.dist-info/sboms`, PEP 770). The tables here have what they do
not list, or list without a licence; a package with compiled files of unknown content is an error.
"""

import json
import re
from collections.abc import Iterator
from hashlib import sha256
from importlib.metadata import Distribution, PackagePath
from typing import Any, Final

SPELLINGS: Final = {
    **dict.fromkeys(("BSD", "New BSD", "3-Clause BSD License", "BSD License"), "BSD-3-Clause"),
    **dict.fromkeys(("Apache 2", "Apache Software License"), "Apache-2.0"),
    **dict.fromkeys(("MIT License",), "MIT"),
    **{name: name for name in ("BSD-2-Clause", "BSD-3-Clause", "MPL-2.0", "Apache-2.0", "MIT")},
    "BSD 3-Clause OR Apache-2.0": "BSD-3-Clause OR Apache-2.0",
}
"""The SPDX expressions for the names that packages give their licences."""

LICENSES: Final = {
    "django-oauth-toolkit": "BSD-2-Clause",
    "pyasn1-modules": "BSD-2-Clause",
    "python-dateutil": "Apache-2.0 AND BSD-3-Clause",
    "python-ldap": "python-ldap",
    "uvloop": "MIT OR Apache-2.0",
    "openssl": "Apache-2.0",
    "libpq": "PostgreSQL",
    "openldap": "OLDAP-2.8",
    "krb5": "MIT",
    "libcom_err": "MIT",
    "keyutils-libs": "GPL-2.0-or-later AND LGPL-2.1-or-later",
    "cyrus-sasl-lib": "BSD-Attribution-HPND-disclaimer",
    "glibc-libcrypt": "LGPL-2.1-or-later",
    "libffi": "MIT",
    "libyaml": "MIT",
    "libuv": "MIT",
    "libhiredis": "BSD-3-Clause",
    "zstd": "BSD-3-Clause",
    "htmx.org": "0BSD",
    "swagger-ui-dist": "Apache-2.0",
    "redoc": "MIT",
}
"""The licences of packages whose metadata are not enough, and of libraries."""

INSIDE: Final = {
    "cffi": ("libffi",),
    "pyyaml": ("libyaml",),
    "uvloop": ("libuv",),
    "hiredis": ("libhiredis",),
    "backports-zstd": ("zstd",),
    "django-htmx": ("htmx.org",),
    "drf-spectacular-sidecar": ("swagger-ui-dist", "redoc"),
}
"""Libraries linked into the packages' own files, or among them."""

OWN_CODE: Final = frozenset({"cbor2", "charset-normalizer", "greenlet", "protobuf", "python-ldap", "wcwidth"})
"""Packages whose compiled files contain no other libraries. python-ldap uses the system's libldap."""

_LIBRARIES: Final = {
    **dict.fromkeys(("libssl", "libcrypto"), "openssl"),
    **dict.fromkeys(("libldap", "liblber"), "openldap"),
    **dict.fromkeys(("libgssapi_krb5", "libkrb5", "libk5crypto", "libkrb5support"), "krb5"),
    "libpq": "libpq",
    "libcom_err": "libcom_err",
    "libcrypt": "glibc-libcrypt",
    "libkeyutils": "keyutils-libs",
    "libsasl2": "cyrus-sasl-lib",
}
"""The projects of the shared libraries in wheels."""
_VERSIONS: Final = {"openssl": re.compile(rb"OpenSSL (\d+\.\d+\.\d+)"), "krb5": re.compile(rb"krb5-(\d+\.\d+\.\d+)")}
_SHARED: Final = re.compile(r"\.libs/(?P<name>[^/]+?)-[0-9a-f]{8}\.so(?P<suffix>[.0-9]*)$")


def license_of(name: str, package: Distribution) -> list[dict[str, Any]]:
    """The licence of a package; raises LookupError if it is unknown."""
    metadata = package.metadata.json
    if known := LICENSES.get(name) or metadata.get("license_expression"):
        return _licenses(str(known))
    classifiers = [each.rpartition(":: ")[2] for each in metadata.get("classifier", ()) if "License ::" in each]
    said = str(metadata.get("license", "")).partition("\n")[0]
    for words in (said, *classifiers):
        if words in SPELLINGS:
            return _licenses(SPELLINGS[words])
    raise LookupError(f"{name}: its licence is not known: {said or classifiers}")


def _licenses(words: str) -> list[dict[str, Any]]:
    if words == "python-ldap":  # its own licence, similar to Python's
        return [{"license": {"name": words}}]
    return [{"expression": words}] if " " in words else [{"license": {"id": words}}]


def parts_of(name: str, package: Distribution) -> list[dict[str, Any]]:
    """The libraries in the wheel of a package; raises LookupError for compiled files of unknown content."""
    files = package.files or []
    lists = [file for file in files if "/sboms/" in str(file)]
    found = [*_listed(name, lists), *({"name": each} for each in INSIDE.get(name, ()))]
    for library in _shared(files):
        known = next((part for part in found if part["name"] == library["name"]), None)
        if known is None:
            found.append(library)
        else:
            known.setdefault("properties", []).extend(library["properties"])
            known["version"] = known.get("version") or library["version"]
    for part in found:
        part.update({"type": "library", "licenses": part.get("licenses") or _licenses(LICENSES[part["name"]])})
    compiled = [file for file in files if ".so" in file.name]
    if compiled and not found and not lists and name not in OWN_CODE:
        raise LookupError(f"{name}: nothing says what is in {compiled[0]}")
    found = [{name: value for name, value in part.items() if value is not None} for part in found]
    return sorted(found, key=lambda part: (part["name"], part.get("version") or ""))


def _listed(name: str, lists: list[PackagePath]) -> Iterator[dict[str, Any]]:
    """The libraries that a wheel lists itself."""
    kept = ("name", "version", "purl", "licenses")
    for file in lists:
        for item in json.loads(file.read_text("utf-8")).get("components", ()):
            if item["name"].lower().replace("_", "-") != name:
                yield {key: item[key] for key in kept if key in item}


def _shared(files: list[PackagePath]) -> Iterator[dict[str, Any]]:
    """Shared libraries beside the package, with the versions that they contain."""
    for file in files:
        if not (named := _SHARED.search(str(file))):
            continue
        if named["name"] not in _LIBRARIES:
            raise LookupError(f"{file}: it is not known whose library this is")
        project, content = _LIBRARIES[named["name"]], file.read_binary()
        version = pattern.search(content) if (pattern := _VERSIONS.get(project)) else None
        yield {
            "name": project,
            "version": version[1].decode() if version else _libpq_version() if project == "libpq" else None,
            "properties": [{"name": f"sha256 of {file.name}", "value": sha256(content).hexdigest()}],
        }


def _libpq_version() -> str:
    """The version from the loaded library, since the file does not contain it."""
    from psycopg import pq

    return f"{pq.version() // 10_000}.{pq.version() % 10_000}"
