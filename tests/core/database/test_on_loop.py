"""A row from the event loop, over outages of the database."""

import asyncio

import pytest
from django.db import DEFAULT_DB_ALIAS, connections

from active_directory import WouldBlock, run_on_loop
from core.database import on_loop
from core.database.on_loop import Row, RowOnLoop


@pytest.mark.sqlite
@pytest.mark.django_db(transaction=True)
def test_a_database_that_could_not_be_reached_is_asked_when_it_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_loop, "_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(on_loop, "_ANSWER_SECONDS", 60.0)
    reader = RowOnLoop(dict.fromkeys(("sqlite", "postgresql"), "SELECT 1, 'x'"))

    async def until_read() -> Row:
        while True:
            try:
                return await run_on_loop(reader.read)
            except WouldBlock:
                await asyncio.sleep(0.01)

    async def main() -> None:
        with monkeypatch.context() as away:
            away.setitem(connections.settings[DEFAULT_DB_ALIAS], "NAME", "/nowhere/database")
            with pytest.raises(WouldBlock):
                await run_on_loop(reader.read)
            await asyncio.wait((reader._task,))
        assert await until_read() == (1, "x")
        reader._close()

    asyncio.run(asyncio.wait_for(main(), 60))
