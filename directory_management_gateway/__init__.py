"""The installed package: the command `gateway`, the web server's launcher, and below `apps/` the gateway's packages.

The apps have short names (`keys`, `audit`) that could collide with other installed packages. So the wheel puts them
into a folder of their own (see `pyproject.toml`), which the command puts first in sys.path.
"""
