# One word for each thing. What it needs is installed first; when nothing has changed that takes milliseconds.
PYTHON = .venv/bin/python
SOURCES = domain protocols store nameserver gateway pyspark_headgate.py setup.py
PREPARE = . scripts/prepare && prepare

.PHONY: up test check sim bench compile weather spark-zip format
SHELL = /bin/bash

up:            ; ./up
test:          ; ./test
compile:       ; $(PREPARE) up
sim:           ; $(PREPARE) dev && $(PYTHON) -m pytest tests/simulation
bench:         ; $(PREPARE) dev && $(PYTHON) -m benchmarks
weather:       ; $(PREPARE) dev && $(PYTHON) -m examples.weather

check:
	$(PREPARE) dev
	.venv/bin/ruff format --check tests/tidy tests/conftest.py
	.venv/bin/ruff check .
	.venv/bin/mypy
	$(PYTHON) -m pytest -m "not interop and not slow"

format:
	$(PREPARE) dev
	.venv/bin/ruff format . && .venv/bin/ruff check --fix .

spark-zip:
	mkdir -p dist && rm -f dist/headgate-spark.zip
	zip -q -r dist/headgate-spark.zip pyspark_headgate.py domain protocols/__init__.py protocols/remoting protocols/compression.py \
		gateway/__init__.py gateway/client.py gateway/link.py gateway/connectors -i '*.py'
