"""The registry refuses what must not be declared."""

import pytest

from core.operation import NO_INVERSE, Effect, find_operation, operation


def test_an_operation_without_a_permission_cannot_be_declared() -> None:
    with pytest.raises(ValueError, match="no permission"):

        @operation("nothing.read", "GET nothing", "Read nothing", permission="")
        def read_nothing() -> None:
            """Read nothing."""


def test_an_operation_without_a_label_cannot_be_declared() -> None:
    with pytest.raises(ValueError, match="no label"):

        @operation("nothing.read", "GET nothing", "", permission="x.y")
        def read_nothing() -> None:
            """Read nothing."""


def test_an_operation_without_a_docstring_cannot_be_declared() -> None:
    with pytest.raises(ValueError, match="no docstring"):

        @operation("nothing.read", "GET nothing", "Read nothing", permission="x.y")
        def read_nothing() -> None: ...


def test_a_change_says_how_it_is_taken_back() -> None:
    with pytest.raises(ValueError, match="inverse"):

        @operation("nothing.change", "POST nothing", "Read nothing", permission="x.y", effect=Effect.CHANGE)
        def change_nothing() -> None:
            """Change nothing."""

    with pytest.raises(ValueError, match="inverse"):

        @operation("nothing.read", "GET nothing", "Read nothing", permission="x.y", inverse=NO_INVERSE)
        def read_nothing() -> None:
            """Read nothing."""


def test_a_second_declaration_is_an_error() -> None:
    known = find_operation("users.read")
    with pytest.raises(ValueError, match="declared already"):

        @operation("users.read", "GET elsewhere", "Read nothing", permission="x.y")
        def read_again() -> None:
            """Read again."""

    with pytest.raises(ValueError, match="declared already"):

        @operation("users.read-again", known.route, "Read nothing", permission="x.y")
        def read_there() -> None:
            """Read there."""
