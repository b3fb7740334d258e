# Every command of the project; `make` alone lists them.

PYTHON := .venv/bin/python
MANAGE := $(PYTHON) manage.py
# pytest's own options, for example: make test ARGS="-k rename tests/directory"
ARGS ?=
# Test processes, each with servers of its own:
# two more than processors, since a test and its servers wait about as long as they compute.
WORKERS ?= $(shell echo $$(($$(nproc) + 2)))
# Half as many: a leg that ends long before the other need not start servers more than once.
SQLITE_WORKERS ?= $(shell echo $$((($$(nproc) + 1) / 2)))
# Requests that `make fuzz` draws for each operation.
EXAMPLES ?= 1000
# The time at which the tests' processes begin, in the zone that TZ names: make test CLOCK="2028-02-29 23:59".
CLOCK ?=
AT_CLOCK := $(if $(CLOCK),scripts/at-clock "$(CLOCK)")
# An earlier commit that the benchmark measures in turns with this one: make bench AGAINST=HEAD~5
AGAINST ?=
# https://docs.astral.sh/uv/, needed by `make lock` alone.
UV ?= uv

# Each of the tests' processes, and each server that they start, would compile everything anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run manage test quick test-clocks lint style types imports format check documents docs fuzz bench faults cluster upgrade-test screenshots clients translations release reset lock install install-test

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: install ## Start the gateway over a real domain on this machine (PORT=8000)
	@exec $(PYTHON) -m demo.run

manage: install ## Run a management command on the demonstration's data (RUN="verify_operations_log")
	@$(PYTHON) -m demo.manage $(RUN)

test: install-test ## Run the whole suite on PostgreSQL, and beside it the tests marked sqlite on SQLite
	@mkdir -p var/tests
	@$(AT_CLOCK) env GATEWAY_TEST_DATABASE=sqlite $(PYTHON) -m pytest -n $(SQLITE_WORKERS) --dist worksteal -m sqlite $(ARGS) \
		> var/tests/sqlite.log 2>&1 & sqlite=$$!; status=0; \
	$(AT_CLOCK) $(PYTHON) -m pytest -n $(WORKERS) --dist worksteal $(ARGS) || status=$$?; \
	wait $$sqlite || status=$$?; cat var/tests/sqlite.log; exit $$status

quick: install-test ## Run the tests that need no servers, in under a minute
	$(PYTHON) -m pytest --quick -n auto --dist worksteal $(ARGS)

test-clocks: install-test ## Run the tests in which the time matters under every clock of scripts/clocks
	scripts/clocks $(PYTHON) -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

lint: style types imports ## Style, types and the layers' allowed imports

style: install-test
	.venv/bin/ruff check
	.venv/bin/ruff format --check

types: install-test
	GATEWAY_ENVIRONMENT=Development .venv/bin/mypy .

imports: install-test
	.venv/bin/lint-imports

format: install-test ## Format the code and repair what can be repaired
	.venv/bin/ruff format
	.venv/bin/ruff check --fix

check: types style imports documents docs ## lint, and that migrations, OpenAPI documents and documentation are complete

documents: install-test
	GATEWAY_ENVIRONMENT=Development $(MANAGE) makemigrations --check --dry-run
	GATEWAY_ENVIRONMENT=Development $(MANAGE) check_openapi
	GATEWAY_ENVIRONMENT=Development $(MANAGE) check_docs

docs: install-test ## Build the documentation's site into var/docs/site; a broken link fails
	@scripts/build-docs
	@echo "The documentation is in var/docs/site/index.html"

fuzz: install-test ## Send both surfaces what schemathesis draws, for hours, and tamper with the log (EXAMPLES=1000)
	GATEWAY_FUZZ_EXAMPLES=$(EXAMPLES) $(PYTHON) -m pytest -n 2 tests/contracts/test_openapi_fuzzing.py \
		tests/audit/chain/test_seals.py::test_every_tampering_is_found_and_named

bench: install-test ## Measure against raw python-ldap and print the table (AGAINST=<commit>, ARGS="--only read")
	$(PYTHON) -m bench $(if $(AGAINST),--against $(AGAINST)) $(ARGS)

faults: install-test ## Kill processes and servers under load, then compare clients, log and directory (ARGS="--faults 60")
	$(PYTHON) -m faults host $(ARGS)
	$(PYTHON) -m faults schedules $(ARGS)

cluster: install-test ## The same with many hosts, in network namespaces: needs root (ARGS="--faults 100")
	$(PYTHON) -m faults cluster $(ARGS)

upgrade-test: install-test ## Upgrade the last release under load and go back, then compare all stories (ARGS="--rounds 9")
	GATEWAY_TEST_UPGRADE=1 $(PYTHON) -m pytest tests/faults/test_upgrade.py
	$(PYTHON) -m faults.upgrade $(ARGS)

screenshots: install-test ## Take the documentation's pictures of the running demonstration
	@$(PYTHON) -m demo.screenshots

clients: ## Make the typed clients from docs/openapi/api.json, the command line and the Ansible collection, and their packages in var/clients
	scripts/make-clients python clients/python var/clients
	scripts/make-clients typescript clients/typescript var/clients
	scripts/make-clients command_line clients/command_line var/clients
	scripts/make-clients ansible clients/ansible var/clients

translations: install-test ## Bring the German catalogue up to date with the sources, and compile it
	@scripts/make-translations

release: install-test ## Make the files of a release in var/release from what is committed
	@scripts/make-release

reset: ## Clear the demonstration's data
	@[ ! -e var/demo ] || flock --nonblock var/demo/lock rm -rf var/demo || \
		{ echo "The demonstration runs; stop it with Ctrl-C first" >&2; exit 1; }

lock: install-test ## Write the requirements*.txt anew from pyproject.toml
	$(UV) pip compile -q pyproject.toml --generate-hashes --no-emit-index-url --no-emit-find-links \
		--python-version 3.11 --custom-compile-command "make lock" -o requirements.txt
	$(UV) pip compile -q pyproject.toml --generate-hashes --no-emit-index-url --no-emit-find-links \
		--python-version 3.11 --custom-compile-command "make lock" --extra agents -c requirements.txt \
		-o requirements-agents.txt
	$(UV) pip compile -q pyproject.toml --generate-hashes --no-emit-index-url --no-emit-find-links \
		--python-version 3.11 --custom-compile-command "make lock" --extra tracing -c requirements-agents.txt \
		-o requirements-tracing.txt
	$(UV) pip compile -q pyproject.toml --generate-hashes --no-emit-index-url --no-emit-find-links \
		--python-version 3.11 --custom-compile-command "make lock" --all-extras --group dev \
		-c requirements-agents.txt -c requirements-tracing.txt -o requirements-dev.txt
	$(UV) pip compile -q --group node --generate-hashes --no-emit-index-url --no-emit-find-links \
		--python-version 3.11 --custom-compile-command "make lock" -o requirements-node.txt
	$(UV) pip compile -q --group clients --generate-hashes --no-emit-index-url --no-emit-find-links \
		--python-version 3.11 --custom-compile-command "make lock" -c requirements-dev.txt -o requirements-clients.txt
	$(UV) pip compile -q --group docs --generate-hashes --no-emit-index-url --no-emit-find-links \
		--python-version 3.11 --custom-compile-command "make lock" -o requirements-docs.txt

install:
	@scripts/bootstrap run

install-test:
	@scripts/bootstrap test $(if $(CLOCK)$(filter test-clocks faults cluster,$(MAKECMDGOALS)),clock)
