# The commands a newcomer needs. Each one sets up whatever it lacks, so it works on a bare Debian machine.
.DEFAULT_GOAL := build
.PHONY: setup build test test-sanitizers test-thorough test-hostile test-gpu demo bench install wheel format format-check tidy clean help

PRESET ?= release
PREFIX ?= /usr/local

help:            ## print the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

setup:           ## install the Debian packages the build needs (idempotent)
	@tools/setup.sh

build: setup     ## build/bin/tilesmith and build/lib
	cmake --preset $(PRESET) --log-level=WARNING
	cmake --build --preset $(PRESET)

test: build      ## the whole test suite
	ctest --preset $(PRESET)

test-sanitizers: build ## the core under the address, undefined-behaviour and thread sanitizers
	tools/test_sanitizers.sh

test-thorough: build ## the long forms of the tests, and the Python suite beside every package it meets
	tools/test_thorough.sh

test-hostile: build ## faults made for real, and kernels made wrong on purpose; at most ten minutes
	tools/test_hostile.sh

test-gpu: build  ## the tests that take a CUDA device, and the kernels under compute-sanitizer
	tools/test_gpu.sh

demo: build      ## enumerate, compile, verify, measure and choose kernels for this machine
	tools/demo.sh

bench: build     ## the benchmarks behind docs/performance.md
	tools/bench.sh

install: build   ## install the library, headers, CMake package and program under PREFIX
	cmake --install build --prefix $(PREFIX)

wheel: setup     ## a Python wheel for every x86-64 Linux with glibc 2.28 or newer, in dist/
	tools/make_wheel.sh

format:          ## rewrite the sources in the project's style
	tools/format.sh

format-check:    ## fail if a source is not in the project's style
	tools/format.sh --check

tidy: build      ## clang-tidy over the library
	tools/tidy.sh

clean:           ## remove every build folder
	rm -rf build build-asan build-tsan
