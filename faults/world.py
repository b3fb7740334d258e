"""The areas of the directory that the clients of a campaign work on, made by an independent LDAP client."""

from dataclasses import dataclass, field

from faults.diary import ABSENT, NO, YES, Key
from lab.directory import PASSWORD, Directory, random_name

ATTRIBUTES = ("title", "department", "company", "physicalDeliveryOfficeName", "telephoneNumber", "info")
"""Single-valued attributes, whose texts say which request wrote them."""


@dataclass
class Area:
    """A client's area of the directory. Objects are named by objectGUID, units by distinguished name."""

    units: tuple[str, str]
    people: list[str]
    keyholders: list[str]
    supervised: list[str]
    listed: list[str]
    run_unit: str
    run_accounts: list[str]
    groups: list[str]
    shared_user: str
    shared_group: str
    shared_attribute: str
    facts: dict[Key, str] = field(default_factory=dict)


def make_areas(directory: Directory, base: str, clients: int) -> list[Area]:
    """Make an area for each client below the base, with a user and a group that all of them share."""
    shared_user = str(directory.add_user("Shared", parent=base))
    shared_group = str(directory.add_group("Shared group", parent=base))

    def users(count: int, parent: str, password: str | None = None) -> list[str]:
        return [str(directory.add_user(random_name("user"), parent=parent, password=password)) for _ in range(count)]

    def make_area(number: int) -> Area:
        unit = directory.add_unit(f"Client {number}", parent=base)
        north, south, runs = (directory.add_unit(name, parent=unit) for name in ("North", "South", "Runs"))
        area = Area(
            units=(north, south),
            people=users(6, north),
            keyholders=users(2, unit, PASSWORD),
            supervised=users(3, unit),
            listed=users(10, unit),
            run_unit=str(directory.guid(runs)),
            run_accounts=users(12, runs),
            groups=[str(directory.add_group(random_name("group"), parent=unit)) for _ in range(2)],
            shared_user=shared_user,
            shared_group=shared_group,
            shared_attribute=ATTRIBUTES[number % len(ATTRIBUTES)],
        )
        for user in (*area.people, *area.keyholders, *area.supervised, *area.listed, *area.run_accounts):
            area.facts |= {("exists", user): YES, ("enabled", user): YES}
            area.facts |= {(name, user): ABSENT for name in ATTRIBUTES}
        for user in area.people:
            area.facts[("unit", user)] = north
            area.facts |= {("member", group, user): NO for group in (*area.groups, shared_group)}
        area.facts |= {("password", user): PASSWORD for user in area.keyholders}
        area.facts[(area.shared_attribute, shared_user)] = ABSENT
        return area

    return [make_area(number) for number in range(clients)]
