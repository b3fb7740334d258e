"""Typed configuration: `gateway.toml` and environment variables, the same keys in both (docs/configuration.md).

Each field is a key: `RequestLimits:MaxBodyBytes` is `[RequestLimits] MaxBodyBytes` in the file and
`RequestLimits__MaxBodyBytes` in the environment, which wins. A bad value stops the start naming the key.
"""

import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_origin

from pydantic import BaseModel, ValidationError

from core.configuration_sections import Configuration

SECRET_VARIABLES = (
    *("GATEWAY_SECRET_KEY", "GATEWAY_ENCRYPTION_KEYS", "GATEWAY_LOG_KEYS"),
    *("DATABASE_URL", "DATABASE_PASSWORD", "REDIS_URL", "REDIS_PASSWORD", "REDIS_SENTINEL_PASSWORD"),
    "EMAIL_HOST_PASSWORD",
)
"""Variables that are or contain a secret. Each can come from a file instead, named by the variable with `_FILE`."""

VARIABLES = frozenset(
    (
        *(
            f"GATEWAY_{name}"
            for name in ("CONFIG", "ENVIRONMENT", "DATA_DIR", "METRICS_DIR", "ALLOWED_HOSTS", "TRUSTED_ORIGINS")
        ),
        *(f"GATEWAY_{name}" for name in ("LOG_FORMAT", "LOG_LEVEL", "TEST_DATABASE", "SCREENSHOTS")),
        *(f"EMAIL_{name}" for name in ("HOST", "PORT", "HOST_USER", "USE_TLS", "USE_SSL", "TIMEOUT")),
        "DEFAULT_FROM_EMAIL",
        *SECRET_VARIABLES,
        *(f"{name}_FILE" for name in SECRET_VARIABLES),
    )
)
"""Environment variables that are not keys of the configuration. TEST_DATABASE and SCREENSHOTS are the tests'."""


class BadConfiguration(Exception):
    """A configuration value that the gateway cannot start with. The message names the key."""


def _field_type(path: list[str]) -> Any:
    """The annotation of a key, None when the section does not know it."""
    model: Any = Configuration
    for name in path:
        field = getattr(model, "model_fields", {}).get(name)
        if field is None:
            return None
        model = field.annotation
    return model


def _environment_value(path: list[str], text: str) -> Any:
    annotation = _field_type(path)
    if annotation is bool:
        if text not in ("true", "false"):
            raise BadConfiguration(f"{':'.join(path)}: must be true or false, not {text!r}")
        return text == "true"
    if get_origin(annotation) is tuple or (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        try:
            return json.loads(text)
        except ValueError:
            raise BadConfiguration(f"{':'.join(path)}: must be JSON in the environment") from None
    return text


def _merge(values: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Merge `given` tables into the defaults in place, so that setting one key of a limit keeps the others."""
    for name, value in given.items():
        if isinstance(value, dict) and isinstance(values.get(name), dict):
            _merge(values[name], value)
        else:
            values[name] = value


def load_configuration(environment: Mapping[str, str] = os.environ) -> Configuration:
    """Read the file named by GATEWAY_CONFIG (if any) and the environment; raises BadConfiguration."""
    values: dict[str, Any] = Configuration().model_dump()
    if file := environment.get("GATEWAY_CONFIG"):
        try:
            _merge(values, tomllib.loads(Path(file).read_text("utf-8")))
        except (OSError, ValueError) as error:
            raise BadConfiguration(f"GATEWAY_CONFIG={file}: {error}") from None
    for key, text in environment.items():
        path = key.split("__")
        if len(path) < 2:
            _require_known_variable(key)
            continue
        if path[0] not in Configuration.model_fields:
            _refuse_misspelt_section(key, path)
            continue
        holder = values
        for name in path[:-1]:
            holder = holder.setdefault(name, {})
            if not isinstance(holder, dict):
                raise BadConfiguration(f"{':'.join(path)}: {name} is not a section")
        holder[path[-1]] = _environment_value(path, text)
    try:
        return Configuration.model_validate(values)
    except ValidationError as refusal:
        raise BadConfiguration("; ".join(_complaint(error) for error in refusal.errors())) from None


def _complaint(error: Any) -> str:
    """One validation error as text, with the nearest known name for an unknown one."""
    path = [str(part) for part in error["loc"]]
    if error["type"] != "extra_forbidden":
        return f"{':'.join(path)}: {error['msg']}"
    *sections, name = path
    model = _field_type(sections) if sections else Configuration
    near = nearest(name, getattr(model, "model_fields", {}), cutoff=0.0)
    return f"{':'.join(path)}: there is no such {'key' if sections else 'section'}; the nearest is {near}"


def _require_known_variable(name: str) -> None:
    """Refuse a misspelling of one of the gateway's variables; other names may belong to another program.

    Names without the prefix GATEWAY_ are common, so there only a slip of a letter or two is refused.
    """
    if name in VARIABLES:
        return
    if near := nearest(name.upper(), VARIABLES, cutoff=0.8 if name.upper().startswith("GATEWAY_") else 0.92):
        raise BadConfiguration(f"{name}: there is no such variable; the nearest is {near}")


def _refuse_misspelt_section(name: str, path: list[str]) -> None:
    """Refuse a variable that is nearly a key of the configuration; others with `__` may belong to another program."""
    section = nearest(path[0], Configuration.model_fields)
    if section is None:
        return
    near = [section]
    for part in path[1:]:
        known = nearest(part, getattr(_field_type(near), "model_fields", {}), cutoff=0.0)
        if known is None:
            break
        near.append(known)
    raise BadConfiguration(f"{name}: there is no such variable; the nearest is {'__'.join(near)}")


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.8) -> str | None:
    """The known name that is spelt most like this one, regardless of case; None if none is similar enough."""
    by_spelling = {each.casefold(): each for each in known}
    found = get_close_matches(name.casefold(), by_spelling, n=1, cutoff=cutoff)
    return by_spelling[found[0]] if found else None
