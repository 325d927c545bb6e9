# `make test` and `make demo` do all their own set-up. Paths are relative, so that the
# folder may be anywhere and its name may hold spaces.

VENV := .venv
RUN := $(VENV)/bin/python -m
STAMP := $(VENV)/installed-for
TOOLS := $(VENV)/tools-installed

# The first Python that is new enough; a name on the path may be a stub that runs nothing.
PYTHON = $(shell for name in python3 python3.14 python3.13 python3.12 python3.11; do \
    if $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
    then echo $$name; break; fi; done)

# An editable install knows its folder by absolute path: a tree that was copied or moved
# together with its environment would run the code of the old place, so it starts afresh.
PLACE := $(shell cat $(STAMP) 2>/dev/null)
ifneq "$(PLACE)" "$(CURDIR)"
CLEAR := --clear
.PHONY: $(STAMP) $(TOOLS)
endif

# The machines of the published report, in its order.
MACHINES := epyc-family26-2cpu-linux-6.18 epyc-family25-2cpu-linux-6.18 \
    epyc-family25-model17-2cpu-linux-6.18 epyc-family25-model1-2cpu-linux-6.18 \
    xeon-family6-model207-2cpu-linux-6.18 counted-linux-6.1 \
    counted-linux-6.1-unmerged

.DEFAULT_GOAL := help
.PHONY: help test demo explore course lint bench equality faults recorded reports kernel size \
    fuzz-translator docs docs-links wheels clean python compiler

help: ## print this text
	@echo "usage: make TARGET"
	@sed -n 's/^\([a-z-]*\):.*## /  \1	/p' Makefile

test: compiler lint ## check style and types, run all tests
	$(RUN) pytest -n auto --dist loadfile --no-loadscope-reorder

demo: $(STAMP) ## compare three forecasts with measured runs, one of them wrong
	$(VENV)/bin/dispatchsim demo

course: $(STAMP) ## open the ten lessons of the course in Jupyter
	@echo "installing Jupyter into $(VENV) (once, about a minute)"
	@$(RUN) pip install --quiet --disable-pip-version-check --editable '.[course]'
	$(VENV)/bin/jupyter notebook $(if $(filter 0,$(shell id -u)),--allow-root) \
	    --JupyterNotebookApp.default_url=/notebooks/notebooks/01_event_loop.ipynb

explore: $(STAMP) ## open the page with sliders for load, connections and idle clients
	$(VENV)/bin/dispatchsim explore

lint: $(TOOLS) ## check style (ruff, clang-format), types (mypy) and the direction of imports
	$(RUN) ruff check
	$(RUN) ruff format --check
	git ls-files -z '*.c' '*.h' | xargs -0 -r $(VENV)/bin/clang-format --dry-run -Werror
	$(VENV)/bin/python -P tests/size.py --link build/names
	$(RUN) mypy
	cd build/names && "$(CURDIR)/$(VENV)/bin/lint-imports" --no-cache "$(CURDIR)/pyproject.toml"

bench: $(TOOLS) ## time the engines beside C and other simulators (ARGS=--quick: shorter)
	$(VENV)/bin/dispatchsim lab bench $(ARGS)

kernel: $(TOOLS) ## build the emulated target's Linux, which its tests need (some minutes)
	$(VENV)/bin/python -P -c 'from dispatchsim.calibration.emulated.kernel_build import kernel; \
	    print(kernel(progress=lambda *step: print("\r%s: %d of %d" % step, end="\033[K", flush=True)).image)'

equality: $(TOOLS) ## compare the C engine with the reference on N=2000 random scenes
	$(VENV)/bin/python -P tests/equality.py $(or $(N),2000)

faults: $(TOOLS) ## plant known faults in a copy, one at a time, and report the test that finds each
	$(VENV)/bin/python -P tests/planted_faults.py $(ARGS)

recorded: $(TOOLS) ## compare results with the record (WRITE=1 writes the record anew)
	$(VENV)/bin/python -P tests/recorded.py $(if $(WRITE),--write)

reports: $(TOOLS) ## make the published reports again (half an hour; minutes with the runs in build/report)
	$(VENV)/bin/dispatchsim validate machine $(MACHINES:%=calibration/measured/%) --cost-samples 5 \
	    --output build/report
	$(VENV)/bin/dispatchsim lab reported --take build/report
	$(VENV)/bin/dispatchsim lab forecast-errors build/report/scores.json
	$(RUN) docs.making.accuracy
	$(VENV)/bin/dispatchsim validate papers --output build/papers
	cp build/papers/*.html build/papers/scores.json validation/reported/papers/
	cp build/papers/figures/chandra_mosberger_2001_4.png \
	    validation/reported/papers_select_and_signals.png
	$(VENV)/bin/dispatchsim lab report-servers --output validation/reported/real_servers
	$(VENV)/bin/dispatchsim lab coverage > validation/reported/coverage.txt

size: $(TOOLS) ## count modules and lines, and check the direction of imports
	$(VENV)/bin/python -P tests/size.py

fuzz-translator: $(TOOLS) ## compare N=1000 random programs in C and CPython (SEED=... repeats a run)
	FUZZ_PROGRAMS=$(or $(N),1000) FUZZ_SEED=$(SEED) $(RUN) pytest -n 0 -s \
	    tests/sim/engine/c/test_differential.py

docs: $(TOOLS) ## run every command and cell of the documents and build the site (build/docs)
	$(RUN) docs.making

docs-links: $(TOOLS) ## build the site and check its external links (needs the network)
	$(RUN) docs.making --links

wheels: $(TOOLS) ## build dist/: the sdist, and wheels with all engines for x86-64 and aarch64
	@$(RUN) pip install --quiet --disable-pip-version-check --editable '.[wheels]'
	@$(RUN) shipping

clean: ## remove the environment and all built files
	rm -rf $(VENV) build dist *.egg-info calibration/c/build
	rm -rf .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name .git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

# Install with the extras $(1).
define install
@$(PYTHON) -m venv $(CLEAR) $(VENV)
@$(RUN) pip install --quiet --disable-pip-version-check --editable '.[$(1)]'
@pwd > $(STAMP)
endef

# Users need half of the packages that developers need.
$(STAMP): pyproject.toml | python
	@echo "installing dispatchsim into $(VENV) (once; 0.8 GB, one to three minutes)"
	$(call install,explore)

$(TOOLS): pyproject.toml | python
	@echo "installing dispatchsim and its developers' tools into $(VENV) (once; 1.7 GB, some minutes)"
	$(call install,dev)
	@touch $(TOOLS)

python:
	$(if $(PYTHON),,$(error Python 3.11 or newer is missing: apt-get install python3 python3-venv))
	@:$(if $(shell $(PYTHON) -c 'import ensurepip, venv' 2>&1),$(error \
	    the venv module of $(PYTHON) is missing: apt-get install $(PYTHON)-venv))

compiler:
	$(if $(shell command -v gcc),,$(error the C compiler is missing: apt-get install gcc libc6-dev))
	@:$(if $(shell echo '#include <sys/epoll.h>' | gcc -E - 2>&1 >/dev/null),$(error \
	    the C library headers are missing: apt-get install libc6-dev))
