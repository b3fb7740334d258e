"""Configuration: the same keys in file and environment, and a start that stops at a bad value, naming it."""

from pathlib import Path

import pytest

from gateway.core.configuration import BadConfiguration, load_configuration


def test_defaults_are_those_of_the_contract() -> None:
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


def test_a_variable_of_no_section_is_somebody_elses() -> None:
    assert load_configuration({"SOME__THING": "x"}) == load_configuration({})
