"""What waits for something else than the event loop can watch says so first, so that it never holds up the loop."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = (
    *("active_directory", "core", "audit", "directory", "keys", "approvals"),
    *("gateway", "operations", "console"),
)
NOT_ON_THE_LOOP = {
    "active_directory/client.py:write_many": "changes",
    "active_directory/connections/pool.py:_connect": "behind `acquire`, which requires a thread",
    "active_directory/connections/pool.py:_wait": "behind `acquire`, which requires a thread",
    "audit/chain/months.py:locked_briefly": "workers",
    "audit/log.py:settle_pending": "workers",
    "audit/migrations/_locks.py:with_lock": "migrations",
    "audit/migrations/_unsealed.py:list_unsealed": "migrations",
    "core/background_writer.py:_run": "its own thread",
    "core/database/row_lease.py:_renew_until": "its own thread",
    "directory/changes/bind_password_rotation.py:rotate": "workers",
    "directory/outcomes/writer.py:_await_late_result": "changes",
    "directory/outcomes/writer.py:wait": "changes",
    "directory/queries/bind_attempts.py:_wait_for_turn": "behind the pool's `acquire`, as it opens a connection",
    "directory/queries/domain_controllers.py:_answer": "of a future that is done",
    "directory/queries/searches/concurrency.py:_lease": "behind `search_turn`, which requires a thread",
    "gateway/monitoring/certificates.py:_refresh": "by /metrics, which is no operation",
    "gateway/monitoring/readiness.py:_finish": "by /health/ready, which is no operation",
    "gateway/monitoring/workers.py:stop": "workers",
}
"""Functions that wait and cannot be reached by a read with a key, with the reason."""


def waiting_functions() -> Iterator[tuple[str, bool]]:
    """Each function of the product that waits, and whether it requires a thread."""
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for function in ast.walk(ast.parse(path.read_text())):
                if isinstance(function, ast.FunctionDef):
                    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
                    if any(map(waits, calls)):
                        required = any(name_of(call) == "require_thread" for call in calls)
                        yield f"{path.relative_to(ROOT)}:{function.name}", required


def waits(call: ast.Call) -> bool:
    """Whether it sleeps, or waits for a lock, a condition, a thread or a future; a pool says so itself."""
    name, given = name_of(call), bool(call.args or call.keywords)
    if not isinstance(call.func, ast.Attribute):
        return name in ("sleep", "wait")
    receiver = ast.unparse(call.func.value)
    return (
        name == "sleep"
        or (name in ("acquire", "wait", "wait_for") and given and not receiver.endswith("pool"))
        or (name in ("result", "join") and not given)
    )


def name_of(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def test_what_waits_requires_a_thread() -> None:
    found = dict(waiting_functions())
    assert {name for name, requires in found.items() if not requires} == NOT_ON_THE_LOOP.keys()
