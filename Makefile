# Two commands matter: `make demo` shows what bidibeam does, `make test` checks everything.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_DIR ?= runs/demo
SAID := "hi , how are you ?" "what do you do for fun ?" "i have an exam tomorrow ."

.DEFAULT_GOAL := help
.PHONY: help setup demo test docs soak coverage format clean

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

setup: $(VENV)/.ready  ## create .venv with the package in it, editable
	@$(if $(filter setup,$(MAKECMDGOALS)),echo "Ready. Put bidibeam on the path of this shell: . $(BIN)/activate",:)

$(VENV)/.ready: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing bidibeam and its dependencies into $(VENV) (about two minutes the first time) ..."
	@$(BIN)/python -m pip install --quiet --progress-bar on --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: setup  ## the whole experiment on a slice of the default corpus, then replies of the model in the box
	@$(BIN)/bidibeam reproduce --corpus chitchat --preset demo --out $(DEMO_DIR)
	@echo "And the model that comes with bidibeam, trained on the whole of the same corpus, asked:"
	@printf '  %s\n' $(SAID)
	@printf '%s\n' $(SAID) | $(BIN)/bidibeam decode

test: setup  ## every check: format, lint, types, import contracts, tests
	@PATH="$(CURDIR)/$(BIN):$$PATH" scripts/check

docs: setup  ## the documentation site, into build/docs; a warning is an error
	@$(BIN)/python -m sphinx -q -W -n --keep-going -E -c docs . build/docs
	@echo "Open build/docs/index.html."

soak: setup  ## the long trials: damaged inputs, every model and option, kills, Ray; counts go to results/soak
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.soak

coverage: setup  ## the tests once more, counting the lines they reach: at least 90 %
	@OMP_NUM_THREADS=1 $(BIN)/pytest -n logical --maxprocesses 4 --dist worksteal --cov --cov-report=term:skip-covered

format: setup  ## format and fix what can be fixed automatically
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

clean:  ## remove the environment and everything the demo wrote
	rm -rf $(VENV) runs build dist
