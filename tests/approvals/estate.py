"""A small estate in the tests' domain with one object of each sort that supervision tells from the others."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from lab.directory import PASSWORD, Directory, filetime, random_name

ADMINISTRATORS = "Backup Operators"


class Estate:
    """Objects by name. Those of `boss` are protected by a membership of a membership; their names prove nothing."""

    def __init__(self, directory: Directory, unit: str) -> None:
        self._directory = directory
        self.unit_dn = unit
        of_boss = directory.add_unit("Of bosses", parent=unit)
        inner = directory.add_unit("Inner", parent=unit)
        directory.add_user(parent=inner)
        self.objects: dict[str, UUID] = {
            "domain": directory.guid(directory.base_dn),
            "controllers": directory.guid(f"OU=Domain Controllers,{directory.base_dn}"),
            "services": directory.guid(f"CN=Services,CN=Configuration,{directory.base_dn}"),
            "unit": directory.guid(unit),
            "elsewhere": directory.guid(directory.add_unit("Elsewhere", parent=unit)),
            "inner": directory.guid(inner),
            "unit_of_boss": directory.guid(of_boss),
            "contact": directory.add(f"CN=Contact,{unit}", {"objectClass": "contact"}),
            "deleted": directory.add_user(parent=unit),
            "user": directory.add_user("Ada", parent=unit, enabled=False),
        }
        directory.delete(self.objects["deleted"])
        locked: dict[str, Any] = {"lockoutTime": filetime(-60)}
        for prefix, parent in (("", unit), ("boss", of_boss)):
            accounts: dict[str, Callable[..., UUID]] = {
                "active": lambda **more: directory.add_user(password=PASSWORD, **more),
                "disabled": lambda **more: directory.add_user(enabled=False, **more),
                "locked": lambda **more: directory.add_user(**locked, **more),
                "computer": lambda **more: directory.add_computer(enabled=False, **more),
                "active_computer": directory.add_computer,
                "locked_computer": lambda **more: directory.add_computer(**locked, **more),
            }
            for name, make in accounts.items():
                self.objects[f"{prefix}_{name}".strip("_")] = make(parent=parent)
        self.objects["boss"] = self.objects.pop("boss_active")
        self.objects["boss_contact"] = directory.add(f"CN=Contact,{of_boss}", {"objectClass": "contact"})
        bosses = [guid for name, guid in self.objects.items() if name.startswith("boss")]
        self.objects["group"] = directory.add_group(parent=unit, members=[self.objects["active"]])
        self.objects["boss_group"] = directory.add_group("Staff", parent=of_boss, members=bosses)
        directory.add_values(
            f"CN={ADMINISTRATORS},CN=Builtin,{directory.base_dn}", member=directory.dn(self.objects["boss_group"])
        )

    def filled(self, value: Any) -> Any:
        """An input with `{name}` replaced by that object's objectGUID, and `{name_dn}` by its distinguished name."""
        if isinstance(value, dict):
            return {name: self.filled(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self.filled(item) for item in value]
        if not isinstance(value, str) or not value.startswith("{"):
            return value
        name = value.strip("{}")
        if name.endswith("_dn"):
            return self._directory.dn(self.objects[name.removesuffix("_dn")])
        return str(self.objects[name])


@contextmanager
def estate_in(directory: Directory) -> Iterator[Estate]:
    """An estate of its own, removed at the end."""
    unit = directory.add_unit(random_name("estate"))
    try:
        yield Estate(directory, unit)
    finally:
        directory.delete(unit, recursive=True)
