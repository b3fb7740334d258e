"""What a client calls its request (X-Request-Id) is shown and searched for: nothing is decided or grouped by it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.commands import PROJECT
from tests.support.house import sources

QUERIES = frozenset({
    *("filter", "exclude", "get", "first", "get_or_create", "update", "update_or_create", "Q", "F", "OuterRef"),
    *("aggregate", "annotate", "values", "values_list", "order_by", "distinct", "Count", "Min", "Max", "Coalesce"),
})  # fmt: skip
SEARCHES = {
    (
        "operations/log/operations.py",
        "('owner', 'key_name', 'operation', 'outcome', 'request_id', 'call_id', 'run_id')",
    ),
    ("audit/models.py", "['request_id', 'id']"),
    ("audit/read_buffer.py", "{'id', 'at', 'completed_at', 'request_id', 'batch_index'}"),
    ("audit/chain/seals.py", "('at', 'completed_at', 'id', 'request_id', 'target_dn', 'target_id')"),
    ("audit/admin.py", "('owner', 'key_name', 'credential_id', 'surface', 'client_address', 'request_id')"),
}
"""Where it is searched for or shown: the filter `requestId` of the log, its index, a page of the back office.

Alike reads of a key are put together whatever their requests are called, and the codes of reads cover it.
"""


def is_request_id(value: object) -> bool:
    """Whether a name is that of the column, with or without a look-up; `change_request_id` is another one."""
    return isinstance(value, str) and value.lstrip("-").split("__")[0] == "request_id"


def is_constant(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and is_request_id(node.value)


def is_read(node: ast.AST) -> bool:
    """Whether an expression is somebody's request id: an attribute, one asked for by its name, or a member."""
    match node:
        case ast.Attribute(attr="request_id", ctx=ast.Load()):
            return True
        case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value="request_id"), *_]):
            return True
        case ast.Subscript(slice=ast.Constant(value="request_id"), ctx=ast.Load()):
            return True
    return False


def passed_on(node: ast.AST) -> Iterator[ast.AST]:
    """What an expression passes on as a request id, or shows as one."""
    match node:
        case ast.keyword(arg="request_id"):
            yield node.value
        case ast.Dict():
            for name, value in zip(node.keys, node.values, strict=True):
                if isinstance(name, ast.Constant) and name.value in ("request_id", "requestId"):
                    yield value


def other_reads(tree: ast.AST) -> list[tuple[int, str]]:
    """Where a request id is read for anything else."""
    nodes = list(ast.walk(tree))
    known = {id(value) for node in nodes for value in passed_on(node)}
    return [(node.lineno, ast.unparse(node)) for node in nodes if is_read(node) and id(node) not in known]  # type: ignore[attr-defined]


def uses(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and text of every place where something is compared, looked up, grouped or ordered by a request id."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare():
                sides = [node.left, *node.comparators]
                if any(isinstance(side, ast.Attribute) and side.attr == "request_id" for side in sides):
                    yield node.lineno, ast.unparse(node)
            case ast.Call():
                called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                is_named = any(is_request_id(keyword.arg) for keyword in node.keywords)
                if called in QUERIES and (is_named or any(map(is_constant, node.args))):
                    yield node.lineno, ast.unparse(node)
            case ast.Tuple() | ast.List() | ast.Set():
                if any(map(is_constant, node.elts)):
                    yield node.lineno, ast.unparse(node)
            case ast.Dict():
                yield from ((node.lineno, ast.unparse(value)) for value in node.values if is_constant(value))
            case ast.Constant(value=str() as text) if "SELECT" in text.upper().split():
                if "request_id" in text.replace("change_request_id", ""):
                    yield node.lineno, text


@pytest.mark.parametrize("file", list(sources()), ids=lambda file: str(file.relative_to(PROJECT)))
def test_nothing_is_decided_by_a_clients_name_for_its_request(file: Path) -> None:
    place = str(file.relative_to(PROJECT))
    tree = ast.parse(file.read_text("utf-8"))
    found = [(line, text) for line, text in (*uses(tree), *other_reads(tree)) if (place, text) not in SEARCHES]
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        "records.filter(request_id=call.request_id)",
        "records.filter(request_id__in=ids)",
        "Q(request_id='x')",
        "rows.values('request_id')",
        "rows.order_by('-request_id')",
        "GROUP = ('requester_id', 'request_id')",
        "F('request_id')",
        "same = record.request_id == call.request_id",
        "cursor.execute('SELECT id FROM log WHERE request_id = %s')",
        "{'request': 'request_id'}",
    ],
)
def test_such_a_use_is_found(code: str) -> None:
    assert list(uses(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "groups[record.request_id].append(record)",
        "seen.add(row['request_id'])",
        "ids = {record.request_id for record in records}",
        "sorted(records, key=lambda record: record.request_id)",
        "find(getattr(request, 'request_id', ''))",
        "name = f'{call.request_id}:{number}'",
        "replace(call, call_id=call.request_id)",
    ],
)
def test_whatever_else_is_made_of_one_is_found(code: str) -> None:
    assert other_reads(ast.parse(code))


def test_no_page_groups_by_one() -> None:
    """Templates and scripts show it."""
    files = [*(PROJECT / "templates").rglob("*.html"), *(PROJECT / "console" / "static" / "console").rglob("*.js")]
    grouping = re.compile(r"(regroup|ifchanged|dictsort)[^%}\n]*request_?id", re.IGNORECASE)
    assert len(files) > 100
    assert [str(file) for file in files if grouping.search(file.read_text("utf-8"))] == []
