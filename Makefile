# Every target sets up .venv on first use; nothing else is needed but Python 3.11+ and Java 17+.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
FLINK := .flink
ESPER := .esper
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo check quick test soak bench flink esper report clean

help: ## say what each target does
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-7s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(STAMP) ## run the demonstration
	@$(BIN)/penstock demo

check: $(STAMP) ## lint, formatting, types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy src tests

quick: check ## check, then all tests that need no Spark, with few random cases: under a minute
	@HYPOTHESIS_PROFILE=quick $(BIN)/python -m pytest -m "not soak" --without-spark -q -n $(WORKERS) --dist worksteal

test: check ## check, then all tests with fixed seeds, in WORKERS processes (2) with a Spark each
	@HYPOTHESIS_PROFILE=ci $(BIN)/python -m pytest -m "not soak" -n $(WORKERS) --dist loadfile --no-loadscope-reorder

soak: $(STAMP) ## thousands of random cases with fresh seeds
	@HYPOTHESIS_PROFILE=soak $(BIN)/python -m pytest -m "soak or not soak" --timeout=7200

bench: $(STAMP) ## measure windows and predicates against plain Spark
	@mkdir -p bench/results
	@$(BIN)/penstock bench windows --json bench/results/windows.json
	@$(BIN)/penstock bench predicates --json bench/results/predicates.json

flink: $(FLINK)/.installed ## set up Flink beside, for penstock bench peers

esper: $(ESPER)/.installed ## fetch Esper with Maven, for penstock bench filters

report: $(STAMP) ## write bench/RESULTS.md and its charts from bench/results
	@$(BIN)/penstock bench report

clean: ## remove the virtual environment and all that tests and tools leave
	@rm -rf $(VENV) $(FLINK) $(ESPER) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist spark-warehouse metastore_db derby.log penstock-demo
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "penstock needs Python 3.11 or newer; $(PYTHON) is not on the PATH (set PYTHON=...)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "penstock needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1) (set PYTHON=...)" >&2; exit 1; }
	@echo "setting up $(VENV) (once)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

$(FLINK)/.installed: bench/flink-constraints.txt
	@echo "setting up $(FLINK) (once; some 700 MB)"
	@$(PYTHON) -m venv $(FLINK)
	@$(FLINK)/bin/python -m pip install --quiet --disable-pip-version-check -c bench/flink-constraints.txt apache-flink
	@touch $(FLINK)/.installed

$(ESPER)/.installed: bench/esper-pom.xml
	@command -v mvn >/dev/null || { echo "make esper needs Maven; mvn is not on the PATH" >&2; exit 1; }
	@echo "fetching $(ESPER) (once; some 15 MB)"
	@mvn -q -B -f bench/esper-pom.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$(ESPER)
	@touch $(ESPER)/.installed
