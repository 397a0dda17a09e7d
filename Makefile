# One word for each thing. What it needs is installed first; when nothing has changed that takes milliseconds.
PYTHON = .venv/bin/python
PREPARE = . scripts/prepare && prepare
COMPILED = $(PREPARE) dev && compile

.PHONY: up test check digests sim soak bench compile weather spark-zip format
SHELL = /bin/bash

up:            ; ./up
test:          ; ./test
compile:       ; $(PREPARE) up && compile
sim:           ; $(COMPILED) && SOAK=1 PYTHONHASHSEED=0 CLUSTER_SEEDS=1000 WEBHOOK_SEEDS=340 $(PYTHON) -m pytest -n 2 tests/simulation
soak:          ; $(COMPILED) && $(PYTHON) scripts/soak $(PARTS)
bench:         ; $(COMPILED) && $(PYTHON) -m benchmarks.run --all
weather:       ; $(COMPILED) && $(PYTHON) -m examples.weather

check:
	$(PREPARE) dev && scripts/check && compile
	$(PYTHON) -m pytest -m "not interop and not slow"

digests:
	$(PREPARE) dev
	$(PYTHON) -m tests.simulation.cluster.seeds -c && $(PYTHON) -m tests.simulation.digests -c

format:
	$(PREPARE) dev
	.venv/bin/ruff format . && .venv/bin/ruff check --fix .

spark-zip:
	$(PREPARE) up
	$(PYTHON) -m gateway.connectors.spark.bundle
