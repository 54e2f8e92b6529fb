# Every task of the project. `make serve` and `make test` need Python 3.11+ and nothing else; what is about the other
# languages' clients needs Node.js 20+ or Go too.
PYTHON ?= python3
VENV := .venv
# One more than there are processors: tests wait for clocks, disks and processes, too.
WORKERS = $(shell $(PYTHON) -c 'import os; print(os.cpu_count() + 1)')
BIN := $(VENV)/bin
PROTOS := $(wildcard protos/askd/v1/*.proto)
GENERATED := src/askd/v1 clients/typescript/src/gen clients/go/askdv1
TYPESCRIPT := clients/typescript
# Where the Python packages of Google share their protos, among them the details of errors.
SHARED_PROTOS = $(shell $(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
export PATH := $(abspath $(BIN)):$(PATH)
# Where images set it, every process that a test starts would compile askd again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help serve test soak bench bench-check gen clients clients-typescript clients-go verify-gen typescript test-clients
.PHONY: release-baseline breaking lint fmt types check clean
help: ## This list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

$(VENV)/.serve: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[consult]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/.serve
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[consult,dev]'
	@touch $@

serve: $(VENV)/.serve ## Run the service with the default settings
	@exec $(BIN)/askd serve

test: $(VENV)/.dev ## Run the test suite
	PYTHONHASHSEED=0 $(BIN)/pytest -n $(WORKERS) --dist worksteal

soak: $(VENV)/.dev ## Run the long chaos tests
	$(BIN)/pytest -m soak --timeout 1800
	ASKD_EXAMPLES=20 $(BIN)/pytest --timeout 1800 tests/domain tests/wire tests/advisors tests/gateway/test_translation.py

bench: $(VENV)/.dev ## Measure against bare gRPC on this machine; ARGS="--help" tells what
	$(BIN)/python -m bench $(ARGS)

bench-check: $(VENV)/.dev ## Fail where a ratio is worse than the recorded one, beyond its noise
	$(BIN)/python -m bench --check $(ARGS)

gen: $(VENV)/.dev ## Generate src/askd/v1 from protos
	$(BIN)/python -m grpc_tools.protoc -Iprotos --python_out=src --grpc_python_out=src \
	  --mypy_out=quiet:src --mypy_grpc_out=quiet,generate_concrete_servicer_stubs:src $(PROTOS)
	cd src/askd/v1 && rm -f ask_pb2_grpc.py* error_reason_pb2_grpc.py*

clients: gen ## Generate every language's client from protos
	@$(call with,npm,clients-typescript)
	@$(call with,go,clients-go)

# A language whose tools are missing is left out, which is said; in CI that is a failure.
with = if command -v $(1) >/dev/null; then $(MAKE) --no-print-directory $(2); \
  else echo "SKIPPED: $(1) is missing: $(2) was NOT made" >&2; test -z "$$CI"; fi

clients-typescript: $(TYPESCRIPT)/node_modules/.package-lock.json $(VENV)/.dev
	rm -rf $(TYPESCRIPT)/src/gen
	cd $(TYPESCRIPT) && buf generate ../..
	cd $(TYPESCRIPT) && buf generate $(SHARED_PROTOS) \
	  $(addprefix --path $(SHARED_PROTOS)/google/rpc/,error_details.proto status.proto)

clients-go: $(VENV)/.dev
	cd clients/go && buf generate ../..

test-clients: $(VENV)/.dev ## Hold every language's client to the same scenarios
	@$(call with,npm,typescript)
	ASKD_CLIENTS=python,typescript,go $(BIN)/pytest -m clients -n 2 --dist loadscope tests/conformance tests/release

verify-gen: clients ## Fail where the generated code is not what protos says
	@test -z "$$(git status --porcelain -- $(GENERATED))" || { git status --short -- $(GENERATED); exit 1; }

$(TYPESCRIPT)/node_modules/.package-lock.json: $(TYPESCRIPT)/package.json $(TYPESCRIPT)/package-lock.json
	cd $(TYPESCRIPT) && npm ci --ignore-scripts --no-audit --no-fund --prefer-offline
	@touch $@

typescript: $(TYPESCRIPT)/dist/.built ## Build the TypeScript client

$(TYPESCRIPT)/dist/.built: $(TYPESCRIPT)/node_modules/.package-lock.json $(TYPESCRIPT)/tsconfig.json \
  $(shell find $(TYPESCRIPT)/src $(TYPESCRIPT)/test $(TYPESCRIPT)/conformance -name '*.ts')
	cd $(TYPESCRIPT) && npm run --silent build
	@touch $@

lint: $(VENV)/.dev ## Check style and the protos
	ruff check . && ruff format --check . && buf lint && buf format --diff --exit-code

fmt: $(VENV)/.dev ## Mend what lint would complain of
	ruff check --fix . && ruff format . && buf format --write

types: $(VENV)/.dev ## Check the types, strictly
	mypy

breaking: $(VENV)/.dev ## Fail where the protos break clients of the last release
	buf breaking --against protos/baseline.binpb

release-baseline: $(VENV)/.dev ## Take the protos as they are for what the next release is compared with
	buf build --exclude-source-info -o protos/baseline.binpb

check: verify-gen lint breaking types test test-clients ## Everything CI runs

clean: ## Remove what make made
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache dist $(TYPESCRIPT)/node_modules $(TYPESCRIPT)/dist
