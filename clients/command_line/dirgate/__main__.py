"""`python -m dirgate`."""

from dirgate.main import main

main()
