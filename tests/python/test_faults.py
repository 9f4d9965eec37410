"""Forks while other threads call, and Ctrl-C while a compiler runs."""

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.compiles

PRELUDE = """
import os, signal, sys, threading, time
import numpy as np
import tilesmith
def multiply(n):
    a = np.ones((n, n), np.float32)
    assert float(tilesmith.matmul(a, a)[0, 0]) == n
"""


def python(text, timeout=240, **environment):
    """Runs a program in an interpreter of its own: one that was forked from this one would have its threads' past."""
    return subprocess.run([sys.executable, "-c", PRELUDE + textwrap.dedent(text)], capture_output=True, text=True,
                          timeout=timeout, env={**os.environ, **environment})  # fmt: skip


def test_processes_forked_while_threads_call():
    done = python("""
        import multiprocessing
        multiply(96)
        stop = threading.Event()
        def calls():
            while not stop.is_set():
                multiply(96)
        threads = [threading.Thread(target=calls) for _ in range(4)]
        for thread in threads: thread.start()
        fork = multiprocessing.get_context("fork")
        bad = 0
        for _ in range(20):
            child = fork.Process(target=multiply, args=(96,))
            child.start()
            child.join(60)
            bad += child.exitcode != 0
            if child.exitcode is None: child.kill()
        stop.set()
        for thread in threads: thread.join()
        print(bad)
    """)
    assert (done.stdout, done.returncode) == ("0\n", 0), done.stderr


def test_daemon_threads_call_while_the_interpreter_ends():
    """With Python's debugging allocator, which notices memory that is freed without the lock."""
    done = python("""
        multiply(96)
        def calls():
            while True: multiply(96)
        for _ in range(16): threading.Thread(target=calls, daemon=True).start()
        time.sleep(0.2)
        print("done", flush=True)
    """, PYTHONMALLOC="debug")
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr


@pytest.fixture
def slow_compiler(tmp_path):
    """A compiler that says who it is and then takes its time."""
    path = tmp_path / "slow"
    path.write_text('#!/bin/sh\nfor a in "$@"; do [ "$a" = --version ] && exec g++ --version; done\n'
                    f'sleep 1000 & echo $! > {tmp_path}/pid; wait; exec g++ "$@"\n')  # fmt: skip
    path.chmod(0o755)
    store = tmp_path / "store"
    store.mkdir(mode=0o700)
    return dict(TILESMITH_CXX=str(path), TILESMITH_CACHE_DIR=str(store), PID_FILE=str(tmp_path / "pid"))


@pytest.mark.parametrize("call", ["multiply(96)", "tilesmith.grouped_matmul([np.ones((90, 90), np.float32)] * 2, [np.ones((90, 90), np.float32)] * 2)", "tilesmith.pack_weight(np.ones((96, 64), np.float32))",
                                  "tilesmith.attention(*[np.ones((1, 2, 40, 48), np.float32)] * 3)"])  # fmt: skip
def test_ctrl_c_ends_the_wait_for_a_compiler(slow_compiler, call):
    done = python(f"""
        def interrupt():
            while not os.path.exists(os.environ["PID_FILE"]) or not open(os.environ["PID_FILE"]).read().endswith("\\n"):
                time.sleep(0.01)
            time.sleep(0.2)
            global sent
            sent = time.monotonic()
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt, daemon=True).start()
        try:
            {call}
        except KeyboardInterrupt:
            print("interrupted", time.monotonic() - sent < 50)
        pid = int(open(os.environ["PID_FILE"]).read())
        for _ in range(1000):
            try:
                with open(f"/proc/{{pid}}/stat") as stat:
                    if stat.read().rsplit(")", 1)[1].split()[0] == "Z": break
            except OSError:
                break
            time.sleep(0.01)
        else:
            print("the compiler lives")
    """, **slow_compiler)  # fmt: skip
    assert (done.stdout, done.returncode) == ("interrupted True\n", 0), done.stderr


def test_a_call_after_ctrl_c_builds_anew(tmp_path):
    """The first compile waits for a file that the second finds."""
    compiler, gate = tmp_path / "gated", tmp_path / "gate"
    compiler.write_text('#!/bin/sh\nfor a in "$@"; do [ "$a" = --version ] && exec g++ --version; done\n'
                        f': > {tmp_path}/begun; while ! [ -e {gate} ]; do sleep 0.05; done; exec g++ "$@"\n')  # fmt: skip
    compiler.chmod(0o755)
    store = tmp_path / "store"
    store.mkdir(mode=0o700)
    done = python(f"""
        def interrupt():
            while not os.path.exists("{tmp_path}/begun"): time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt, daemon=True).start()
        try:
            multiply(96)
        except KeyboardInterrupt:
            open("{gate}", "w").close()
            multiply(96)
            print(tilesmith.last_plan().reason)
    """, TILESMITH_CXX=str(compiler), TILESMITH_CACHE_DIR=str(store))  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("first of"), done.stdout


def test_other_threads_wait_as_before():
    done = python("""
        thread = threading.Thread(target=multiply, args=(72,))
        thread.start()
        thread.join()
        multiply(72)
        print(threading.active_count())
    """)
    assert (done.stdout, done.returncode) == ("1\n", 0), done.stderr
