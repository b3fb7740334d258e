"""The schema as it is now: loaded once when it is first needed, and anew off everybody's way."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress

from active_directory.background import Background
from active_directory.errors import LdapError
from active_directory.schema import Schema

_RETRY_SECONDS = 30.0


class CurrentSchema:
    """Believes a schema for so many seconds; then a thread loads the next one while the old one goes on to be used.

    A directory that does not answer leaves the present one. Until there is a first one all wait for the same loading,
    and hear the same error.
    """

    def __init__(self, load: Callable[[], Schema], seconds: float) -> None:
        self._load = load
        self._seconds = seconds
        self._lock = threading.Lock()
        self._background = Background("schema")
        self._loading: Future[Schema] | None = None
        self._until = 0.0
        self.present: Schema | None = None
        """What was loaded last, None before the first time."""

    def get(self) -> Schema:
        """The schema; raises what loading the first one does."""
        schema = self.present
        if schema is None:
            return self.load_now()
        if time.monotonic() >= self._until:
            self._background.start(self._load_again)
        return schema

    def load_soon(self) -> None:
        """Begin to load the first one, for those who will need it."""
        if self.present is None:
            self._background.start(self._load_again)

    def load_now(self) -> Schema:
        """Load it, or wait for who is loading it; what was there before stays when that fails."""
        with self._lock:
            loading, is_ours = self._loading, self._loading is None
            if loading is None:
                loading = self._loading = Future()
        if not is_ours:
            return loading.result()
        try:
            schema = self._load()
        except BaseException as error:
            self._until = time.monotonic() + _RETRY_SECONDS
            loading.set_exception(error)
            raise
        else:
            self.present, self._until = schema, time.monotonic() + self._seconds
            loading.set_result(schema)
            return schema
        finally:
            self._loading = None

    def _load_again(self) -> None:
        with suppress(LdapError):
            self.load_now()
