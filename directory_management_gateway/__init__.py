"""What is installed: the command `gateway`, and below `apps/` the packages and files of the repository that it runs.

The apps have short names (`keys`, `audit`), which would collide with others' among the installed packages. So the wheel
puts them into a folder of their own (`pyproject.toml` says which), and the command makes that folder the first place
where Python looks. Nothing of the gateway's work lives here, but how its web processes follow one another does.
"""
