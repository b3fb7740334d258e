"""The schema is loaded once for all who wait for the first one, and anew without anybody waiting."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from active_directory import Client, Schema, ServerSettings, Unavailable
from active_directory.schema import CurrentSchema
from lab.proxy import FaultyProxy

PATIENCE = 120


def test_it_works(server_settings: ServerSettings, directory_proxy: FaultyProxy) -> None:
    client = Client(replace(server_settings, urls=(directory_proxy.url,), schema_seconds=0))
    client.load_schema_soon()
    first = client.schema
    assert first.attribute("cn") is not None
    directory_proxy.stall()
    assert client.schema is first  # a directory that does not answer keeps nobody waiting
    directory_proxy.restore()
    deadline = time.monotonic() + PATIENCE
    while client.schema is first:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert client.schema.attribute("cn") is not None
    client.close()


class Loader:
    """Loads when it is let, or fails."""

    def __init__(self, result: Schema | Exception) -> None:
        self.result, self.times, self.may_end = result, 0, threading.Event()

    def __call__(self) -> Schema:
        self.times += 1
        assert self.may_end.wait(PATIENCE)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


@pytest.mark.parametrize("result", [Schema({}, {}), Unavailable("away")], ids=["loaded", "away"])
def test_who_waits_for_the_first_one_waits_for_the_same(result: Schema | Exception) -> None:
    loader = Loader(result)
    current = CurrentSchema(loader, 600)
    current.load_soon()
    with ThreadPoolExecutor(4) as threads:
        waiting = [threads.submit(current.get) for _ in range(4)]
        time.sleep(0.1)  # lets them come: they are few, and one that comes late finds the schema or loads it again
        loader.may_end.set()
        heard = [future.exception(PATIENCE) or future.result() for future in waiting]
    assert heard == [result] * 4
    assert loader.times == 1 or isinstance(result, Exception)


def test_what_cannot_be_loaded_leaves_the_present_one() -> None:
    loader = Loader(Schema({}, {}))
    loader.may_end.set()
    current = CurrentSchema(loader, 0)
    present = current.get()
    loader.result = Unavailable("away")
    while loader.times < 2:
        assert current.get() is present
        time.sleep(0.01)
    with pytest.raises(Unavailable):
        current.load_now()
    assert current.get() is present
