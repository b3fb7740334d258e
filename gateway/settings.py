"""Django settings. What a deployment may change comes from the environment and from `gateway.toml`."""

import os
import sys
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from core.configuration import BadConfiguration, load_configuration
from core.deployment import database_from, hosts_from, mail_from
from core.oauth import PROVIDER_SETTINGS
from core.redis.clients import broker_options_from, broker_tls_from
from core.redis.queues import NEW_QUEUE, NEW_TASKS, QUEUES
from core.redis.urls import broker_from, redis_from
from core.secrets.keyring import FILES, encryption_keys_from, log_keys_from, secret_key_from, with_secrets_from_files
from core.secrets.private_files import (
    database_files,
    make_directory,
    make_private_by_default,
    require_private,
    require_private_directory,
    require_writable_directory,
)
from core.tracing import require_usable

make_private_by_default()

BASE_DIR = Path(__file__).resolve().parent.parent
ENVIRONMENT = os.environ.get("GATEWAY_ENVIRONMENT", "Production")
# An installed package never writes into its own folder.
_data_dir = BASE_DIR / "var" if (BASE_DIR / "manage.py").exists() else "/var/lib/gateway"
DATA_DIR = Path(os.environ.get("GATEWAY_DATA_DIR") or _data_dir)

# Processes update their metrics files with every request: they are kept in memory, where no full disk can break them.
_in_memory = f"/dev/shm/gateway-{os.getuid()}-{sha256(bytes(DATA_DIR.absolute())).hexdigest()[:12]}"  # noqa: S108 - require_private_directory checks it
_in_development = str(DATA_DIR / "metrics") if ENVIRONMENT == "Development" else ""
METRICS_DIR = Path(os.environ.get("GATEWAY_METRICS_DIR") or _in_development or _in_memory)

try:
    if ENVIRONMENT not in ("Development", "Production"):
        raise BadConfiguration(f"GATEWAY_ENVIRONMENT: must be Development or Production, not {ENVIRONMENT!r}")
    DEVELOPMENT = ENVIRONMENT == "Development"
    CONFIGURATION = load_configuration()
    _environment = with_secrets_from_files(os.environ)
    require_writable_directory(DATA_DIR, "GATEWAY_DATA_DIR")
    require_writable_directory(METRICS_DIR, "GATEWAY_METRICS_DIR")
    require_private_directory(METRICS_DIR, "GATEWAY_METRICS_DIR")
    _database_url = _environment.get("DATABASE_URL") or f"sqlite:///{DATA_DIR}/gateway.sqlite3"
    DATABASES = {"default": database_from(_database_url, _environment.get("DATABASE_PASSWORD", ""))}
    _is_single_machine = DATABASES["default"]["ENGINE"].endswith("sqlite3")
    _is_new = False
    if _is_single_machine:
        # Whoever can read these files can act as an administrator. With PostgreSQL no secret is on this machine's disk.
        require_private_directory(DATA_DIR, "GATEWAY_DATA_DIR")
        _database = Path(DATABASES["default"]["NAME"])
        make_directory(_database.parent, "DATABASE_URL")
        for _file in (*database_files(_database), *(DATA_DIR / name for name in FILES)):
            require_private(_file)
        _is_new = not _database.exists()
    SECRET_KEY = secret_key_from(_environment, DATA_DIR, single_machine=_is_single_machine)
    ENCRYPTION_KEYS = encryption_keys_from(_environment, DATA_DIR, single_machine=_is_single_machine)
    # The first releases sealed the log with the encryption keys.
    LOG_KEYS = log_keys_from(
        _environment, DATA_DIR, single_machine=_is_single_machine, formerly=None if _is_new else ENCRYPTION_KEYS
    )
    REDIS_URL = redis_from(
        _environment.get("REDIS_URL") or "redis://127.0.0.1:6379/0",
        _environment.get("REDIS_PASSWORD", ""),
        _environment.get("REDIS_SENTINEL_PASSWORD", ""),
    )
    ALLOWED_HOSTS = hosts_from(_environment, development=DEVELOPMENT)
    vars().update(mail_from(_environment, development=DEVELOPMENT))  # EMAIL_… and DEFAULT_FROM_EMAIL
    require_usable(_environment)
except BadConfiguration as error:
    sys.exit(f"The gateway cannot start: {error}")

DEBUG = False  # debug pages show internals; all that Development adds are the API documents
CSRF_TRUSTED_ORIGINS = [item for item in os.environ.get("GATEWAY_TRUSTED_ORIGINS", "").split(",") if item]

INSTALLED_APPS = [
    "gateway",  # first: its commands override Django's of the same name, which would write no log record
    "gateway.apps.BackOfficeConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_htmx",
    "gateway.apps.OAuthToolkitConfig",
    "audit",
    "directory",
    "keys",
    "approvals",
    "operations",
    "console",
]
if DEVELOPMENT and (BASE_DIR / "demo").is_dir():
    INSTALLED_APPS.append("demo")  # its commands fill a trial domain; it is not in the wheel

# Outermost first. Rate limits and body sizes are checked before anything looks at a credential
# (docs/api.md#order-of-checks).
MIDDLEWARE = [
    "gateway.middleware.request_id.RequestIdMiddleware",
    "gateway.middleware.compression.CompressionMiddleware",
    "gateway.middleware.deceiving_text.DeceivingTextMiddleware",
    "gateway.middleware.programs.ProblemMiddleware",
    "gateway.middleware.client_address.ClientAddressMiddleware",
    "gateway.middleware.rate_limit.RateLimitMiddleware",
    "gateway.middleware.body_limit.BodyLimitMiddleware",
    "gateway.middleware.people.BrowserSecurityMiddleware",
    "gateway.middleware.programs.ProgramsMiddleware",
    "gateway.middleware.people.WhiteNoiseMiddleware",
    "gateway.middleware.people.LanguageMiddleware",
    "gateway.middleware.people.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "gateway.middleware.people.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]

ROOT_URLCONF = "gateway.urls"
APPEND_SLASH = False

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "keys.Person"
AUTHENTICATION_BACKENDS = ["keys.sign_in.sessions.SessionBackend"]
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.ScryptPasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

SESSION_ENGINE = "keys.sign_in.sessions"
SESSION_COOKIE_AGE = 8 * 3600
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = not DEVELOPMENT
CSRF_FAILURE_VIEW = "gateway.surfaces.problems.csrf_failure"
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_HSTS_SECONDS = 0 if DEVELOPMENT else 31_536_000
LOGIN_URL = "console:sign-in"
# Bodies are limited by BodyLimitMiddleware, which answers 413; Django's own limit would answer 400 first.
DATA_UPLOAD_MAX_MEMORY_SIZE = None

LANGUAGE_CODE = "en"  # the language of the sources, and of everything that programs get
LANGUAGES = [("en", "English"), ("de", "Deutsch")]
LOCALE_PATHS = [BASE_DIR / "locale"]
LANGUAGE_COOKIE_NAME = "language"
LANGUAGE_COOKIE_AGE = 365 * 24 * 3600
LANGUAGE_COOKIE_HTTPONLY = True
LANGUAGE_COOKIE_SECURE = not DEVELOPMENT
TIME_ZONE = "UTC"
FORMAT_MODULE_PATH = "gateway.formats"
STATIC_URL = "/static/"
STATIC_ROOT = DATA_DIR / "static"
with suppress(OSError):  # a full disk
    STATIC_ROOT.mkdir(parents=True, exist_ok=True)  # whitenoise warns when it is missing
WHITENOISE_USE_FINDERS = True  # serve files from the installed packages, without a build step
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "gateway.middleware.people.FingerprintedStaticFiles"},
}

CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": [REDIS_URL],  # a list: Django splits a string at commas, which Sentinel addresses contain
        "KEY_PREFIX": "gateway",
        # A counter that does not answer must not delay the request for long.
        "OPTIONS": {
            "pool_class": "core.redis.clients.CachePool",
            "socket_connect_timeout": 1,
            "socket_timeout": 1,
        },
    }
}

CELERY_BROKER_URL = broker_from(REDIS_URL)
CELERY_TASK_QUEUES: dict[str, dict[str, str]] = {name: {} for name in QUEUES}
CELERY_TASK_ROUTES = {name: {"queue": NEW_QUEUE} for name in NEW_TASKS}
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_TASK_IGNORE_RESULT = True
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# A worker must survive the errors of a Redis whose memory is full, whose role changes or whose replicas are gone.
CELERY_BROKER_CHANNEL_ERROR_RETRY = True
# A web request that enqueues a run must fail within seconds if the broker is down.
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "socket_connect_timeout": 2,
    "socket_timeout": 5,
    **broker_options_from(REDIS_URL),
}
CELERY_BROKER_USE_SSL = broker_tls_from(REDIS_URL)
CELERY_TASK_PUBLISH_RETRY = False
CELERY_WORKER_HIJACK_ROOT_LOGGER = False

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [],  # each surface has its own: `keys.authentication`
    "DEFAULT_PERMISSION_CLASSES": [],  # the pipeline checks permissions
    "DEFAULT_PARSER_CLASSES": ["gateway.surfaces.reading.StrictJsonParser"],
    "DEFAULT_RENDERER_CLASSES": ["gateway.surfaces.rendering.JsonRenderer"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "gateway.surfaces.reading.Negotiation",
    "DEFAULT_SCHEMA_CLASS": "gateway.surfaces.openapi.operations.SurfaceSchema",
    "EXCEPTION_HANDLER": "gateway.surfaces.problems.exception_handler",
    "UNAUTHENTICATED_USER": None,
}

# The sign-in of agents (`keys.agents`).
OAUTH2_PROVIDER_APPLICATION_MODEL = "keys.AgentClient"
OAUTH2_PROVIDER_ACCESS_TOKEN_MODEL = "keys.AgentAccessToken"  # noqa: S105 - a model's name
OAUTH2_PROVIDER_REFRESH_TOKEN_MODEL = "keys.AgentRefreshToken"  # noqa: S105 - a model's name
OAUTH2_PROVIDER = PROVIDER_SETTINGS

SPECTACULAR_SETTINGS = {
    "OAS_VERSION": "3.1.1",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "",
    "POSTPROCESSING_HOOKS": [],  # our shapes already name their enumerations
    "SWAGGER_UI_DIST": "SIDECAR",  # load nothing from other sites
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
}

LOGGING_CONFIG = "gateway.monitoring.logs.configure"
LOGGING = {"level": os.environ.get("GATEWAY_LOG_LEVEL", "INFO"), "format": os.environ.get("GATEWAY_LOG_FORMAT", "text")}
