"""What the environment says of the mail server."""

import pytest

from core.configuration import BadConfiguration, load_configuration
from core.deployment import mail_from


@pytest.mark.parametrize(
    ("environment", "development", "backend"),
    [
        ({}, True, "console"),
        ({"EMAIL_HOST": "mail.example.test"}, True, "smtp"),
        ({}, False, "smtp"),
        ({"EMAIL_HOST": "mail.example.test"}, False, "smtp"),
    ],
)
def test_mail_goes_to_the_console_in_development_unless_a_server_is_named(
    environment: dict[str, str], development: bool, backend: str
) -> None:
    mail = mail_from(environment, development=development)
    assert mail["EMAIL_BACKEND"] == f"django.core.mail.backends.{backend}.EmailBackend"


def test_everything_is_taken_from_the_environment() -> None:
    environment = {
        "EMAIL_HOST": "mail.example.test",
        "EMAIL_PORT": "587",
        "EMAIL_HOST_USER": "gateway",
        "EMAIL_HOST_PASSWORD": "secret",
        "EMAIL_USE_TLS": "true",
        "DEFAULT_FROM_EMAIL": "Directory gateway <dmg@example.test>",
    }
    mail = mail_from(environment, development=False)
    assert mail == {
        **environment,
        "EMAIL_PORT": 587,
        "EMAIL_USE_TLS": True,
        "EMAIL_USE_SSL": False,
        "EMAIL_TIMEOUT": 10,
        "EMAIL_BACKEND": "django.core.mail.backends.smtp.EmailBackend",
    }


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"EMAIL_PORT": "smtp"}, "EMAIL_PORT"),
        ({"EMAIL_PORT": "0"}, "EMAIL_PORT"),
        ({"EMAIL_TIMEOUT": "-1"}, "EMAIL_TIMEOUT"),
        ({"EMAIL_USE_TLS": "yes"}, "EMAIL_USE_TLS"),
        ({"EMAIL_USE_TLS": "true", "EMAIL_USE_SSL": "true"}, "EMAIL_USE_SSL"),
    ],
)
def test_a_bad_value_stops_the_start(environment: dict[str, str], named: str) -> None:
    with pytest.raises(BadConfiguration, match=named):
        mail_from(environment, development=True)


@pytest.mark.parametrize("url", ["gateway.example.test", "ftp://x", "https://", "https://x/?a=b", "https://x y"])
def test_a_base_url_that_is_none(url: str) -> None:
    with pytest.raises(BadConfiguration, match="Approvals:BaseUrl"):
        load_configuration({"Approvals__BaseUrl": url})


@pytest.mark.parametrize("url", ["", "https://gateway.example.test", "http://127.0.0.1:8000/dmg/"])
def test_a_base_url(url: str) -> None:
    assert load_configuration({"Approvals__BaseUrl": url}).Approvals.BaseUrl == url
