"""`make faults`: break the gateway's processes and servers under load, then compare all accounts of what happened."""

import sys
from functools import partial

from faults.campaign import Plan
from faults.command import new_seed, options_of, run
from faults.kinds import kinds_on
from faults.servers import running_servers

MARKER = "<!-- the last report, written by `python -m faults --write` -->\n"


def main() -> int:
    """Return 0 if every target is met."""
    defaults = Plan(500, "postgresql", new_seed(), lend=True)
    options = options_of("python -m faults", __doc__, defaults)
    options.add_argument("--database", choices=("postgresql", "sqlite"), default=defaults.database)
    arguments = options.parse_args()
    site = partial(running_servers, database=arguments.database)
    return run(arguments, defaults, marker=MARKER, site=site, kinds=kinds_on(arguments.database))


if __name__ == "__main__":
    sys.exit(main())
