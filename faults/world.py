"""The areas of the directory that the clients of a campaign work on, made by an independent LDAP client."""

from faults.diary import ABSENT, NO, YES, Key
from lab.directory import PASSWORD, Directory, random_name

ATTRIBUTES = ("title", "department", "company", "physicalDeliveryOfficeName", "telephoneNumber", "info")
"""Single-valued attributes, whose texts say which request wrote them."""


class Area:
    """A client's area of the directory. Objects are named by objectGUID, units by distinguished name."""

    def __init__(self, directory: Directory, base: str, number: int, *, shared_user: str, shared_group: str) -> None:
        def users(count: int, parent: str, password: str | None = None) -> list[str]:
            return [
                str(directory.add_user(random_name("user"), parent=parent, password=password)) for _ in range(count)
            ]

        unit = directory.add_unit(f"Client {number}", parent=base)
        north, south, runs = (directory.add_unit(name, parent=unit) for name in ("North", "South", "Runs"))
        self.units = (north, south)
        self.people = users(6, north)
        self.keyholders = users(2, unit, PASSWORD)
        self.supervised = users(3, unit)
        self.listed = users(10, unit)
        self.run_unit = str(directory.guid(runs))
        self.run_accounts = users(12, runs)
        self.groups = [str(directory.add_group(random_name("group"), parent=unit)) for _ in range(2)]
        self.shared_user, self.shared_group = shared_user, shared_group
        self.shared_attribute = ATTRIBUTES[number % len(ATTRIBUTES)]
        self.facts: dict[Key, str] = {(self.shared_attribute, shared_user): ABSENT}
        for user in (*self.people, *self.keyholders, *self.supervised, *self.listed, *self.run_accounts):
            self.facts |= {("exists", user): YES, ("enabled", user): YES}
            self.facts |= {(name, user): ABSENT for name in ATTRIBUTES}
        for user in self.people:
            self.facts[("unit", user)] = north
            self.facts |= {("member", group, user): NO for group in (*self.groups, shared_group)}
        self.facts |= {("password", user): PASSWORD for user in self.keyholders}


def make_areas(directory: Directory, base: str, clients: int) -> list[Area]:
    """Make an area for each client below the base, with a user and a group that all of them share."""
    user, group = directory.add_user("Shared", parent=base), directory.add_group("Shared group", parent=base)
    return [Area(directory, base, number, shared_user=str(user), shared_group=str(group)) for number in range(clients)]
