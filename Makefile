# make run    sets everything up and opens the app        make lint   style and types
# make test   sets everything up and runs all tests       make bench  measures what the README promises
.POSIX:
.PHONY: run test lint bench lock audit clean

VENV = .venv
BIN = $(VENV)/bin
NODE = tests/browser/node_modules
# the first Python that is new enough; `make run PYTHON=/path/to/python` takes another
PYTHON = $$(for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; exit; }; done)

run: $(VENV)/ready-to-run
	$(BIN)/streamlit run app.py

# on every core at once: test by test what needs no browser and no server of its own, the rest file by file
test: lint
	$(BIN)/python -m pytest -m "not browser and not server" -n auto --dist worksteal
	$(BIN)/python -m pytest -m "browser or server" -n auto --dist loadfile

lint: $(VENV)/ready-to-test $(VENV)/ready-chromium $(VENV)/ready-npm $(VENV)/ready-haproxy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@if [ -x $(NODE)/.bin/eslint ]; then echo "eslint"; cd tests/browser && npm run --silent lint; \
	else echo "eslint is left out: npm or its packages cannot be had here."; fi

bench: $(VENV)/ready-to-test $(VENV)/ready-chromium
	$(BIN)/python benchmarks/core.py
	$(BIN)/python benchmarks/serving.py
	$(BIN)/python benchmarks/latency.py
	$(BIN)/python benchmarks/lessons.py

# after a change of requirements*.txt: every package that they need, pinned with its hash, for every platform
lock: $(VENV)/ready-to-test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==0.13.9
	for name in requirements requirements-dev; do $(BIN)/uv pip compile --quiet --universal \
		--python-version 3.11 --generate-hashes --no-emit-index-url --no-header $$name.txt -o $$name.lock; done

# known weaknesses of those packages; fails where the registry cannot tell
audit: $(VENV)/ready-to-test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check pip-audit==2.10.1
	$(BIN)/pip-audit --strict --disable-pip --require-hashes -r requirements.lock

clean:
	rm -rf $(VENV) $(NODE) .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/python:
	@python="$(PYTHON)"; \
	if [ -z "$$python" ]; then echo "This needs Python 3.11 or newer, and none was found on the PATH."; exit 1; fi; \
	whole() { "$$python" -c 'import venv, ensurepip' 2>/dev/null; }; \
	if ! whole && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing python3-venv, which this Python lacks"; \
		apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv >/dev/null; fi; \
	if ! whole; then \
		echo "This Python cannot make virtual environments: on Debian or Ubuntu, install python3-venv first."; exit 1; fi; \
	"$$python" -m venv $(VENV)

# every package by its hash: what is installed here is what was tested
$(VENV)/ready-to-run: requirements.lock $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@touch $@

$(VENV)/ready-to-test: requirements-dev.lock $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $(VENV)/ready-to-run $@

# Debian's Chromium where we may install it, Playwright's own elsewhere; the one without windows is half as much work
$(VENV)/ready-chromium: $(VENV)/ready-to-test
	@if [ "$$(id -u)" = 0 ] && grep -qs '^ID=debian' /etc/os-release \
		&& ! { command -v chromium && command -v chromium-headless-shell; } >/dev/null; then \
		echo "Installing Debian's Chromium for the browser tests"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
		apt-get install -y -qq --no-install-recommends chromium chromium-headless-shell >/dev/null && touch $@ && exit; fi; \
	for name in chromium chromium-browser google-chrome; do command -v $$name >/dev/null && touch $@ && exit; done; \
	deps=; [ "$$(id -u)" != 0 ] || deps=--with-deps; \
	$(BIN)/python -m playwright install $$deps chromium && touch $@ \
	|| echo "Chromium cannot be had here, so the browser tests will be skipped."

# the set-up of deploy/ is really run where HAProxy is
$(VENV)/ready-haproxy: $(VENV)/ready-to-test
	@if [ -x /usr/sbin/haproxy ] || command -v haproxy >/dev/null; then touch $@; \
	elif [ "$$(id -u)" = 0 ] && grep -qs '^ID=debian' /etc/os-release; then \
		echo "Installing Debian's HAProxy for the tests of deploy/"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
		apt-get install -y -qq --no-install-recommends haproxy >/dev/null && touch $@; fi; \
	[ -e $@ ] || echo "HAProxy cannot be had here, so the tests with several processes will be skipped."

# axe-core checks the pages for readers who cannot see them; eslint checks the board's JavaScript
$(VENV)/ready-npm: tests/browser/package.json
	@if command -v npm >/dev/null && cd tests/browser && npm install --silent --no-audit --no-fund --no-package-lock; \
	then touch ../../$@; else echo "npm or its packages cannot be had here, so axe-core and eslint are left out."; fi
