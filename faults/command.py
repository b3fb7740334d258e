"""Shared by `python -m faults` and `python -m faults.cluster`: the options, the run, and the report."""

import argparse
import dataclasses
import random
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from faults.campaign import Plan, SiteOf, run_campaign
from faults.kinds import Kind
from faults.report import report
from lab.commands import PROJECT

PAGE = PROJECT / "docs" / "faults.md"
END = "<!-- its end -->\n"
_OPTIONS = {
    "faults": "how many",
    "seed": "makes the same choices again",
    "clients": "client threads",
    "pace": "seconds between two faults on average",
    "back_within": "seconds until what was killed has to be back",
    "settled_within": "seconds until all is settled after the last fault",
}


def options_of(command: str, description: str | None, defaults: Plan) -> argparse.ArgumentParser:
    """The options of a campaign, which are fields of its plan."""
    parser = argparse.ArgumentParser(prog=command, description=description)
    for name, meaning in _OPTIONS.items():
        default = getattr(defaults, name)
        option = "--patience" if name == "back_within" else f"--{name.replace('_', '-')}"
        parser.add_argument(
            option, type=type(default), default=default, dest=name, help=f"{meaning} (default {default})"
        )
    parser.add_argument("--write", action="store_true", help="put the report into docs/faults.md")
    parser.add_argument("--keep", action="store_true", help="keep logs and diaries although every target is met")
    return parser


def new_seed() -> int:
    """A seed to begin with."""
    return random.randrange(10**6)


def run(arguments: argparse.Namespace, defaults: Plan, *, marker: str, site: SiteOf, kinds: Sequence[Kind]) -> int:
    """Run a campaign and print its report, written behind the marker on request; return 0 if every target is met."""
    fields = {field.name for field in dataclasses.fields(Plan)}
    plan = dataclasses.replace(defaults, **{name: value for name, value in vars(arguments).items() if name in fields})
    folder = Path(tempfile.mkdtemp(prefix="gateway-faults-"))
    folder.chmod(0o755)  # PostgreSQL runs as another user, in a private folder below
    begun = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - begun:6.0f} s  {text}", flush=True)

    say(f"seed {plan.seed}, logs and diaries in {folder}")
    result = run_campaign(plan, folder, say=say, site=site, kinds=kinds)
    text = report(result)
    print(f"\n{text}")
    if arguments.write:
        head, _, rest = PAGE.read_text().partition(marker)
        PAGE.write_text(f"{head}{marker}\n{text}\n{END}{rest.partition(END)[2]}")
    if result.is_good and not arguments.keep:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"logs and diaries: {folder}")
    return 0 if result.is_good else 1
