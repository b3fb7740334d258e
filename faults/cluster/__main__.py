"""`make cluster`: many hosts in network namespaces, broken under load one by one and together, and then compared."""

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from faults.campaign import Plan, run_campaign
from faults.cluster.kinds import KINDS
from faults.cluster.site import running_cluster
from faults.report import report
from lab.cluster.network import CannotRun, enter
from lab.commands import PROJECT

PAGE = PROJECT / "docs" / "faults.md"
BEGIN, END = "<!-- the last report of `make cluster` -->\n", "<!-- its end -->\n"


def main() -> int:
    """0 when every target is met, 2 where no cluster can be made."""
    arguments = _arguments()
    try:
        enter()
    except CannotRun as reason:
        print(f"make cluster: {reason}", file=sys.stderr)
        return 2
    place = Path(tempfile.mkdtemp(prefix="gateway-cluster-"))
    place.chmod(0o755)
    wanted = Plan(
        arguments.faults,
        "a cluster",
        arguments.seed,
        arguments.clients,
        arguments.pace,
        back_within=arguments.patience,
        settled_within=arguments.settled_within,
    )
    begun = time.monotonic()
    print(f"seed {wanted.seed}, logs and diaries in {place}", flush=True)
    result = run_campaign(
        wanted,
        place,
        say=lambda text: print(f"{time.monotonic() - begun:6.0f} s  {text}", flush=True),
        site=running_cluster,
        kinds=KINDS,
    )
    text = report(result)
    print(f"\n{text}")
    if arguments.write:
        head, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{head}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}")
    if result.is_good and not arguments.keep:
        shutil.rmtree(place, ignore_errors=True)
    else:
        print(f"logs and diaries: {place}")
    return 0 if result.is_good else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m faults.cluster", description=__doc__)
    parser.add_argument("--faults", type=int, default=500, help="how many (default 500)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="makes the same choices again")
    parser.add_argument("--clients", type=int, default=4, help="client threads (default 4)")
    parser.add_argument("--pace", type=float, default=6.0, help="seconds between two faults on average (default 6)")
    parser.add_argument("--patience", type=float, default=120.0, help="seconds until a host has to be back (120)")
    parser.add_argument(
        "--settled-within", type=float, default=60.0, help="seconds until all is settled after the last fault (60)"
    )
    parser.add_argument("--write", action="store_true", help="put the report into docs/faults.md")
    parser.add_argument("--keep", action="store_true", help="keep logs and diaries although every target is met")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
