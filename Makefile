# Every target works in a fresh clone with nothing but CPython 3.11-3.13, Java 17 and a network.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup test lowest faults pairs soak simulate compatibility parity manifests pictures docs lint demo bench lock clean

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SCHEMAS := .cache/kubernetes-validate
HELM := .cache/helm
LOWEST := .cache/lowest
GRAFANA := .cache/grafana
MKDOCS := .cache/mkdocs
# How both locks are written; the extra `kerberos` is built against a library of the system.
EXTRAS := --extra web --extra demo --extra msk --extra otel --extra avro
COMPILE := pip-compile --quiet --upgrade --generate-hashes --strip-extras --allow-unsafe --no-header --no-annotate \
  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host

# Settings of the caller's own Python must not leak into the project's.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv from the lock file and fetch Kafka's jars; does nothing the second time

$(READY): requirements.lock pyproject.toml tests/programs.py
	@$(check_java)
	@$(make_venv)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --use-pep517 --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	$(BIN)/python -m sparkmirror.testing.jars
	$(BIN)/python -m sparkmirror.testing.demo_data
	$(BIN)/python -m sparkmirror.testing.warm_start
	$(BIN)/python -m sparkmirror.spark.warm_start
	$(BIN)/python -m tests.programs
	@touch $@

test: $(READY) ## ruff, mypy and all tests; two workers, each with its own brokers; ALLOW_SKIPS=1 where programs are missing
	@status=0; \
	$(MAKE) --no-print-directory lint || { status=1; echo "make lint failed, see above; the tests follow." >&2; }; \
	$(BIN)/python -m pytest -n 2 -m "not long" $(ARGS) || status=1; \
	exit $$status

lowest: $(READY) ## unit tests with the lowest versions of packages that pyproject.toml allows, in .cache/lowest
	$(BIN)/python -m tests.lowest $(LOWEST)
	$(LOWEST)/bin/python -m pytest -n 2 -m "not long" tests/unit $(ARGS)

faults: $(READY) ## the tests that take too long for `make test`; ARGS="-k name" for some of them
	$(BIN)/python -m pytest -m "long and not pairs" --timeout 1800 $(ARGS)

pairs: $(READY) ## the fault matrix with a second event while each fault lasts; ARGS="-k 'at-least-once-1 and recreated'"
	$(BIN)/python -m pytest -m pairs --timeout 1800 tests/faults/test_pairs.py $(ARGS)

soak: $(READY) ## two flows against each other for an hour of broken things; ARGS="--minutes 5"
	$(BIN)/python -m tests.faults.soak $(ARGS)

simulate: $(READY) ## search histories on simulated brokers for a broken promise; ARGS="--minutes 60", ARGS="--seed N"
	$(BIN)/python -m tests.simulation $(ARGS)

manifests: $(READY) ## check deploy/, the chart and its manifests by Kubernetes' own schemas (22 MB once); needs helm or go
	@test -d $(SCHEMAS) || $(BIN)/python -m pip install --quiet --disable-pip-version-check --target $(SCHEMAS) \
	  kubernetes-validate==1.37.0
	@command -v helm > /dev/null || test -x $(HELM)/helm || GOBIN=$(CURDIR)/$(HELM) go install helm.sh/helm/v3/cmd/helm@v3.22.0
	PATH="$(CURDIR)/$(HELM):$$PATH" helm lint --quiet --strict deploy/helm/sparkmirror
	PATH="$(CURDIR)/$(HELM):$$PATH" $(BIN)/python deploy/helm/render.py --check --to .cache/manifests
	PYTHONPATH=$(SCHEMAS) $(BIN)/python $(SCHEMAS)/bin/kubernetes-validate --strict -k 1.37 \
	  deploy/kubernetes/*.yaml .cache/manifests/*.yaml
	@test -d $(GRAFANA) || $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $(GRAFANA) \
	  grafana-foundation-sdk==1769699998!10.1.0
	PYTHONPATH=$(GRAFANA) $(BIN)/python deploy/grafana/check.py
	$(BIN)/python -m pytest -q tests/unit/test_deploy.py

compatibility: $(READY) ## mirror between brokers of each two releases; ARGS="3.0.0:4.3.0" for some of them
	$(BIN)/python -m tests.compatibility $(ARGS)

parity: $(READY) ## MirrorMaker 2's own integration tests against this project, hours; ARGS="--untried", ARGS="Class.method"
	$(BIN)/python -m tests.mm2suite $(ARGS)

lint: $(READY) ## ruff (rules and format), mypy, and which package may import which
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo

pictures: $(READY) ## take the pictures of README and docs/web.md again, of a real mirror: three minutes
	$(BIN)/python -m tests.pictures $(ARGS)

docs: $(READY) ## build the pages as a site in .cache/site/html; a broken link fails it (mkdocs is fetched once)
	@test -d $(MKDOCS) || $(BIN)/python -m pip install --quiet --disable-pip-version-check --target $(MKDOCS) \
	  --require-hashes -r docs/site/requirements.lock
	$(BIN)/python docs/site/prepare.py .cache/site
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=$(MKDOCS) $(BIN)/python -m mkdocs build -f .cache/site/mkdocs.yml

demo: $(READY) ## mirror between two embedded clusters and watch it
	@$(BIN)/sparkmirror demo $(ARGS)

bench: $(READY) ## measure against MirrorMaker 2 on this machine
	@$(BIN)/python -m bench $(ARGS)

lock: $(READY) ## write requirements.lock again from pyproject.toml, and requirements.lowest by its lower bounds
	$(BIN)/python -m pip install --quiet --disable-pip-version-check pip-tools
	$(BIN)/$(COMPILE) $(EXTRAS) --extra test --extra lint --output-file requirements.lock pyproject.toml
	sed -i '1i # Written by `make lock` from pyproject.toml: all that the project and its tests need, for CPython 3.11 to 3.13.' requirements.lock
	$(BIN)/python -m tests.lowest > .cache/bounds.txt
	$(BIN)/$(COMPILE) $(EXTRAS) -c .cache/bounds.txt --output-file requirements.lowest pyproject.toml
	sed -i '1i # Written by `make lock` from pyproject.toml: the lowest versions that it allows, for CPython 3.11 and 3.12.' requirements.lowest
	$(BIN)/python deploy/container/lock.py > deploy/container/requirements.lock.new
	mv deploy/container/requirements.lock.new deploy/container/requirements.lock

clean: ## remove what make and the tools made here; Kafka's jars stay in the user's cache
	rm -rf $(VENV) build dist spark-warehouse src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests bench -name __pycache__ -prune -exec rm -rf {} +

define check_java
java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
version=$$("$$java" -version 2>&1 | sed -nE 's/.*version "(1\.)?([0-9]+).*/\2/p' | head -n 1); \
if [ "$${version:-0}" -lt 17 ]; then \
  echo "sparkmirror: Java 17 or newer is needed, $$java is $${version:+version }$${version:-not there}." >&2; \
  echo "  hint: install a Java 17 runtime and put java on PATH, or set JAVA_HOME" >&2; \
  exit 3; \
fi
endef

define make_venv
if $(BIN)/python -m pip --version >/dev/null 2>&1; then exit 0; fi; \
for python in python3 python3.13 python3.12 python3.11; do \
  if "$$python" -c 'import sys, ensurepip, venv; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; \
  then exec "$$python" -m venv --clear $(VENV); fi; \
done; \
echo "sparkmirror: CPython 3.11, 3.12 or 3.13 with its venv module is needed, and none is on PATH." >&2; \
echo "  hint: install one of them (on Debian and Ubuntu: python3 and python3-venv)" >&2; \
exit 3
endef
