"""Where Django keeps the sessions of people: in the database, under a digest of what the browser's cookie holds.

Whoever reads the database, or a copy of it, finds no key there that could be sent as a cookie.
"""

import hashlib
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.sessions.backends import db
from django.contrib.sessions.base_session import AbstractBaseSession
from django.contrib.sessions.models import Session
from django.http import HttpRequest
from django.utils import timezone


def stored_key(session_key: str | None) -> str:
    """The name of a session in the database, from the key in the cookie; "" for none.

    The first 160 bits of its SHA-256, as many as Django's column holds. The key itself has 165 random bits, so no salt
    and no slow hash is needed.
    """
    return hashlib.sha256(session_key.encode()).hexdigest()[:40] if session_key else ""


def stored_key_of(request: HttpRequest) -> str:
    """The name of the request's session in the database; "" for none."""
    return stored_key(request.session.session_key)


class SessionStore(db.SessionStore):
    """Django's own store of the database, which it asks by the stored key."""

    def _get_session_from_db(self) -> Session | None:
        living = Session.objects.filter(session_key=stored_key(self.session_key), expire_date__gt=timezone.now())
        found = living.first()
        if found is None:
            self._session_key = None
        return found

    def exists(self, session_key: str) -> bool:
        return super().exists(stored_key(session_key))

    def create_model_instance(self, data: dict[str, Any]) -> AbstractBaseSession:
        instance = super().create_model_instance(data)
        instance.session_key = stored_key(instance.session_key)
        return instance

    def delete(self, session_key: str | None = None) -> None:
        if key := session_key or self.session_key:
            super().delete(stored_key(key))

    async def _aget_session_from_db(self) -> Session | None:
        return await sync_to_async(self._get_session_from_db)()

    async def aexists(self, session_key: str) -> bool:
        return await sync_to_async(self.exists)(session_key)

    async def acreate_model_instance(self, data: dict[str, Any]) -> AbstractBaseSession:
        return await sync_to_async(self.create_model_instance)(data)

    async def adelete(self, session_key: str | None = None) -> None:
        await sync_to_async(self.delete)(session_key)
