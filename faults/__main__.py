"""`make faults`: break the gateway's processes and servers under load, and compare the stories afterwards."""

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from faults.campaign import Plan, run_campaign
from faults.report import report
from lab.commands import PROJECT

PAGE = PROJECT / "docs" / "faults.md"
MARKER = "<!-- the last report, written by `python -m faults --write` -->\n"


def main() -> int:
    """0 when every target is met."""
    arguments = _arguments()
    place = Path(tempfile.mkdtemp(prefix="gateway-faults-"))
    place.chmod(0o755)  # PostgreSQL runs as another user and keeps its part of it to itself
    plan = Plan(
        arguments.faults,
        arguments.database,
        arguments.seed,
        arguments.clients,
        arguments.pace,
        back_within=arguments.patience,
        settled_within=arguments.settled_within,
    )
    begun = time.monotonic()
    print(f"seed {plan.seed}, logs and diaries in {place}", flush=True)
    result = run_campaign(plan, place, say=lambda text: print(f"{time.monotonic() - begun:6.0f} s  {text}", flush=True))
    text = report(result)
    print(f"\n{text}")
    if arguments.write:
        head, _, _ = PAGE.read_text().partition(MARKER)
        PAGE.write_text(f"{head}{MARKER}\n{text}")
    if result.is_good and not arguments.keep:
        shutil.rmtree(place, ignore_errors=True)
    else:
        print(f"logs and diaries: {place}")
    return 0 if result.is_good else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    parser.add_argument("--faults", type=int, default=500, help="how many (default 500)")
    parser.add_argument("--database", choices=("postgresql", "sqlite"), default="postgresql")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="makes the same choices again")
    parser.add_argument("--clients", type=int, default=6, help="client threads (default 6)")
    parser.add_argument("--pace", type=float, default=3.0, help="seconds between two faults on average (default 3)")
    parser.add_argument(
        "--patience", type=float, default=10.0, help="seconds until a killed process has to be back (10)"
    )
    parser.add_argument(
        "--settled-within", type=float, default=60.0, help="seconds until all is settled after the last fault (60)"
    )
    parser.add_argument("--write", action="store_true", help="put the report into docs/faults.md")
    parser.add_argument("--keep", action="store_true", help="keep logs and diaries although every target is met")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
