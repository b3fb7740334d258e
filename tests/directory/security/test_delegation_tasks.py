"""Names of tasks where the domain of the tests has no such attributes: the schema is made up."""

from uuid import UUID

import pytest

from active_directory import AttributeType, ObjectClass, Schema, Syntax
from active_directory.constants import EVERYONE_SID
from active_directory.descriptor import ObjectTypes, Subject, map_generic
from active_directory.schema import ClassCategory
from active_directory.sddl import parse_sddl
from directory.security.delegations import TASKS, Grant, name_tasks

LEGACY, PASSWORD, ENCRYPTED, CLASS, OTHER_RIGHT = (UUID(int=number) for number in range(1, 6))


def attribute(name: str, guid: UUID) -> AttributeType:
    return AttributeType(name, Syntax.OCTET_STRING, 4, "1.2.3", single_valued=True, schema_id_guid=guid)


NOTHING: frozenset[str] = frozenset()
TYPES = ObjectTypes(
    Schema(
        {
            name.lower(): attribute(name, guid)
            for name, guid in (
                ("ms-Mcs-AdmPwd", LEGACY),
                ("msLAPS-Password", PASSWORD),
                ("msLAPS-EncryptedPassword", ENCRYPTED),
            )
        },
        {
            "computer": ObjectClass(
                "computer", "user", ClassCategory.STRUCTURAL, NOTHING, NOTHING, NOTHING, NOTHING, "cn", CLASS
            )
        },
    ),
    {(Subject.EXTENDED_RIGHT, OTHER_RIGHT): "Some-Right"},
)


def named(*entries: str) -> dict[str, int]:
    """How many entries each task has."""
    descriptor = parse_sddl("D:" + "".join(f"({entry};{EVERYONE_SID})" for entry in entries))
    assert descriptor.dacl is not None
    grants = [Grant(ace, map_generic(ace.mask)) for ace in descriptor.dacl.aces]
    return {name: len(aces) for name, aces in name_tasks(grants, TYPES).items()}


@pytest.mark.parametrize("guid", [LEGACY, PASSWORD, ENCRYPTED])
def test_reading_the_passwords_of_local_administrators(guid: UUID) -> None:
    assert named(f"OA;CIIO;RPCR;{guid};{CLASS}") == {"Read LAPS passwords": 1}
    assert named(f"OA;CIIO;RP;{guid};{CLASS}", f"OA;CIIO;CR;{guid};{CLASS}")["Read LAPS passwords"] == 1


def test_several_ways_to_one_task_are_one_task() -> None:
    assert named(f"OA;CIIO;RP;{LEGACY};{CLASS}", f"OA;CIIO;RPCR;{ENCRYPTED};{CLASS}") == {"Read LAPS passwords": 2}


def test_control_access_to_an_attribute_is_no_right_of_its_own() -> None:
    assert named(f"OA;CIIO;WPCR;{LEGACY};{CLASS}") == {"Write ms-Mcs-AdmPwd": 1}
    assert named(f"OA;CIIO;CR;{LEGACY};{CLASS}") == {"Read ms-Mcs-AdmPwd": 1}


def test_what_the_directory_does_not_have_is_no_task_of_the_table() -> None:
    """Neither the extended right nor the attribute exist here: a missing identifier must match nothing."""
    assert named("A;;RP;;", "A;;CR;;", "A;;WP;;") == {
        "Read all properties": 1,
        "Write all properties": 1,
        "All extended rights": 1,
    }


def test_rights_left_over_are_named_for_what_they_are() -> None:
    assert named(f"OA;;CR;{OTHER_RIGHT};") == {"Some Right": 1}
    assert named(f"OA;;CRRC;{OTHER_RIGHT};") == {"Some Right": 1, "Custom": 1}
    assert named(f"OA;CIIO;GA;;{CLASS}") == {"Manage computers": 1}
    assert named(f"OA;CIIO;GA;;{UUID(int=9)}") == {"Manage unknown objects": 1}
    assert named(f"OA;;CCDC;{UUID(int=9)};") == {"Custom": 1}


def test_nothing_is_left_out_and_nothing_named_twice() -> None:
    """Every single right makes up exactly one task, with and without an object type."""
    for bit in range(32):
        assert sum(named(f"A;;{1 << bit:#x};;").values()) == 1 or bit >= 28  # generic rights are several
        assert sum(named(f"OA;;{1 << bit:#x};{OTHER_RIGHT};").values()) >= 1


def test_the_table_names_no_need_twice() -> None:
    assert len({task.needs for task in TASKS}) == len(TASKS)
