"""Fills a domain that is not running, in one transaction: `/usr/bin/python3 fill_domain.py <directory> <people>`.

Runs under the system's Python, as `lab/samba/setup.py` does. Everybody is in two of 200 groups, which are all in one
("Wide"); other groups have 10 people ("Ten"), and two fifths of all ("Most"). The last of them, at most 5,000 and a
quarter, are protected: in 200 groups within the account operators. Every third has a password that has expired.
"""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from lab.company.fill_domain import ANY_PASSWORD_TIME
from lab.samba.setup import modify, open_database

EXPIRED = "133000000000000000"
"""When every third has set a password: in 2022."""


def main() -> None:
    people = int(sys.argv[2])
    samdb = open_database(Path(sys.argv[1]), "batch_mode:1")  # the index stays in memory until the end
    base = samdb.domain_dn()

    def person(number: int) -> str:
        return f"CN=Person {number:05},OU=Growth,{base}"

    def add_group(name: str, members: Iterable[str]) -> str:
        dn, values = f"CN={name},OU=Growth Groups,{base}", list(members)
        group = {"dn": dn, "objectClass": "group", "sAMAccountName": name, "groupType": "-2147483646"}
        samdb.add({**group, "member": values} if values else group)
        return dn

    def add_groups(name: str, is_member: Callable[[int, int], bool], first: int = 0) -> list[str]:
        """Add 200 groups of those people, by the numbers of group and person."""
        everybody = range(first, people)
        return [
            add_group(f"{name} {group}", [person(number) for number in everybody if is_member(group, number)])
            for group in range(200)
        ]

    samdb.transaction_start()
    for unit in ("Growth", "Growth Groups"):
        samdb.add({"dn": f"OU={unit},{base}", "objectClass": "organizationalUnit"})
    for number in range(people):
        account = f"p{number:05}"
        samdb.add({
            "dn": person(number),
            "objectClass": "user",
            "sAMAccountName": account,
            "userAccountControl": "544",
            "displayName": f"Jörg Person {number:05}",
            "mail": f"{account}@corp.example.test",
            "department": f"Department {number % 40}",
            "title": "Engineer",
        })  # fmt: skip
        if number % 3 == 0:
            modify(samdb, person(number), {"pwdLastSet": EXPIRED}, [ANY_PASSWORD_TIME])
    add_group("Wide", add_groups("Part", lambda group, number: group in (number % 200, number * 31 % 199)))
    add_group("Ten", map(person, range(10)))
    add_group("Most", map(person, range(people * 2 // 5)))
    protected = min(5000, people // 4)
    add_group("Guards", add_groups("Guard", lambda group, number: group == number % 200, people - protected))
    samdb.add_remove_group_members("Account Operators", ["Guards"])
    samdb.transaction_commit()


if __name__ == "__main__":
    main()
