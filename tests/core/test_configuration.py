"""Configuration: the same keys in file and environment, and a start that stops at a bad value, naming it."""

import re
from pathlib import Path

import pytest

from core.configuration import VARIABLES, BadConfiguration, load_configuration
from lab.commands import PROJECT
from tests.support.house import FOLDERS


def test_defaults_are_the_documented_ones() -> None:
    configuration = load_configuration({})
    assert configuration.RequestLimits.MaxBodyBytes == 1_048_576
    assert configuration.RequestLimits.MaxBatchBodyBytes == 10_485_760
    limits = configuration.RateLimiting
    assert (limits.Global.Requests, limits.Global.WindowSeconds) == (300, 60)
    assert (limits.DirectorySearch.Requests, limits.DirectorySearch.WindowSeconds) == (60, 60)
    assert (limits.PasswordReset.Requests, limits.PasswordReset.WindowSeconds) == (5, 60)
    assert (limits.PasswordChange.Requests, limits.PasswordChange.WindowSeconds) == (3, 300)


def test_environment_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text("[RequestLimits]\nMaxBodyBytes = 5\nMaxBatchBodyBytes = 6\n")
    configuration = load_configuration({"GATEWAY_CONFIG": str(file), "RequestLimits__MaxBodyBytes": "7"})
    assert configuration.RequestLimits.MaxBodyBytes == 7
    assert configuration.RequestLimits.MaxBatchBodyBytes == 6


def test_one_key_of_a_limit_keeps_the_others() -> None:
    configuration = load_configuration({"RateLimiting__Global__Requests": "9"})
    assert (configuration.RateLimiting.Global.Requests, configuration.RateLimiting.Global.WindowSeconds) == (9, 60)


def test_lists_are_json_in_the_environment() -> None:
    configuration = load_configuration(
        {
            "ForwardedHeaders__KnownProxies": '["10.0.0.1", "fd00::/8"]',
            "RateLimiting__Paths": '[{"Path": "/api/*", "Requests": 1, "WindowSeconds": 2}]',
        }
    )
    assert configuration.ForwardedHeaders.KnownProxies == ("10.0.0.1", "fd00::/8")
    assert configuration.RateLimiting.Paths[0].Path == "/api/*"


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"RequestLimits__MaxBodyBites": "5"}, "RequestLimits:MaxBodyBites"),
        ({"RequestLimits__MaxBodyBytes": "much"}, "RequestLimits:MaxBodyBytes"),
        ({"RequestLimits__MaxBodyBytes": "0"}, "RequestLimits:MaxBodyBytes"),
        ({"RateLimiting__Enabled": "1"}, "RateLimiting:Enabled"),
        ({"RateLimiting__Paths": "/api"}, "RateLimiting:Paths"),
        ({"RateLimiting__Global": '{"Requests": -1}'}, "RateLimiting:Global:Requests"),
        ({"ForwardedHeaders__KnownProxies": '["10.0.0.1/8"]'}, "ForwardedHeaders:KnownProxies"),
    ],
)
def test_a_bad_value_is_named(environment: dict[str, str], named: str) -> None:
    with pytest.raises(BadConfiguration, match=named):
        load_configuration(environment)


@pytest.mark.parametrize(
    "name", ["SOME__THING", "some__Enabled", "GATEWAY_PORT", "GATEWAY_SERVICE_HOST", "GATEWAY_PORT_8000_TCP", "PATH"]
)
def test_a_variable_of_no_section_is_somebody_elses(name: str) -> None:
    assert load_configuration({name: "x"}) == load_configuration({})


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("RateLimit__Enabled", "RateLimiting__Enabled"),
        ("RATELIMITING__ENABLED", "RateLimiting__Enabled"),
        ("RateLimiting__enabled", "Enabled"),
        ("RateLimiting__Global__Request", "Requests"),
        ("RateLimits__Global__Request", "RateLimiting__Global__Requests"),
        ("Directorys__PoolSize", "Directory__PoolSize"),
        ("RequestLimits__MaxBody", "MaxBodyBytes"),
        ("GATEWAY_ALOWED_HOSTS", "GATEWAY_ALLOWED_HOSTS"),
        ("GATEWAY_ALLOWED_HOST", "GATEWAY_ALLOWED_HOSTS"),
        ("GATEWAY_SECRETKEY", "GATEWAY_SECRET_KEY"),
        ("GATEWAY_ENCRYPTION_KEY", "GATEWAY_ENCRYPTION_KEYS"),
        ("GATEWAY_LOGKEYS", "GATEWAY_LOG_KEYS"),
        ("Gateway_Data_Dir", "GATEWAY_DATA_DIR"),
    ],
)
def test_a_misspelt_variable_stops_the_start_with_the_nearest_name(name: str, near: str) -> None:
    with pytest.raises(BadConfiguration, match=rf"the nearest is {near}$") as refusal:
        load_configuration({name: "true"})
    assert name.replace("__", ":") in str(refusal.value).replace("__", ":")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[RateLimit]\nEnabled = false", "RateLimit: there is no such section; the nearest is RateLimiting"),
        ("[Metric]\nx = 1", "Metric: there is no such section; the nearest is Metrics"),
        ("Enabled = false", "Enabled: there is no such section"),
        ("[RateLimiting]\nEnable = false", "RateLimiting:Enable: there is no such key; the nearest is Enabled"),
        (
            "[RateLimiting.Global]\nRequest = 1",
            "RateLimiting:Global:Request: there is no such key; the nearest is Requests",
        ),
        (
            "[[RateLimiting.Paths]]\nPath='/x'\nRequests=1\nWindowSeconds=1\nX=1",
            "RateLimiting:Paths:0:X: there is no such key",
        ),
    ],
)
def test_an_unknown_name_of_the_file_stops_the_start(text: str, named: str, tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(text)
    with pytest.raises(BadConfiguration, match=re.escape(named)):
        load_configuration({"GATEWAY_CONFIG": str(file)})


def test_every_variable_that_is_read_is_known() -> None:
    """Else a variable that is added later would be refused as a misspelling of another."""
    found = set()
    for folder in (*FOLDERS, "lab", "tests/support", "tests/browser", "demo"):
        for file in (PROJECT / folder).rglob("*.py"):
            found |= set(re.findall(r"[\"'](GATEWAY_[A-Z_]*[A-Z])[\"']", file.read_text()))
    assert "GATEWAY_SECRET_KEY" in found
    assert found <= VARIABLES
