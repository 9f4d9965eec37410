#!/usr/bin/env python3
"""The GPU tests of a build, carried to a machine that builds nothing, and run there side by side.

    tools/gpu_suite.py pack FOLDER [--build build]                    where the build is
    tools/gpu_suite.py run FOLDER [--jobs 16] [--seconds 600] [--only REGEX]    in the repository's root where the GPU is

`pack` puts the programs (without their symbols), the library and a list of tasks into FOLDER: what ctest labels `gpu`, and the Python tests
in shares. `run` takes the checkout it stands in for sources and case files, and a python3 that has NumPy, pytest and torch. It keeps FOLDER/store
(compiled kernels) and FOLDER/results.json; a next run begins with what took longest. The exit status is 1 if a task failed or was not run.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHARE = 16  # Python tests of a task at most: importing torch takes seconds
ALIKE = ("test_compile_first.py",)  # its tests share a child process of a minute, and thousands of tests of one line are fast


def strip(program, folder):
    """Copies a program or library without its symbols."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["strip", "-o", folder / program.name, program.resolve()], check=True)


def python_tasks(build):
    """The Python tests in shares of one file each."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "python"), "TILESMITH_LIBRARY": str(build / "lib/libtilesmith.so")}
    listed = subprocess.run([sys.executable, "-m", "pytest", "--collect-only", "."], cwd=ROOT / "tests/python", env=environment,
                            capture_output=True, text=True)
    tests = [line for line in listed.stdout.splitlines() if "::" in line]
    if listed.returncode or not tests:
        sys.exit(f"pytest lists no tests: {listed.stdout[-2000:]}{listed.stderr[-2000:]}")
    files = {}
    for test in tests:
        files.setdefault(test.split("::")[0], []).append(test)
    for file, tests in files.items():
        whole = len(tests) > 1000 or file in ALIKE
        shares = 1 if whole else -(-len(tests) // SHARE)
        for at in range(shares):
            yield {"name": f"python/{file}/{at}", "python": file, "share": f"{at}/{shares}"}


def ctest_tasks(build, used):
    """The tests that ctest labels `gpu`, with paths from the build's and the checkout's roots; the programs they start go into `used`."""
    listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True, text=True)
    for test in json.loads(listed.stdout)["tests"]:
        properties = {p["name"]: p["value"] for p in test["properties"]}
        if "gpu" not in properties.get("LABELS", []):
            continue
        program, *arguments = test["command"]
        used.add(pathlib.Path(program))
        environment = dict(pair.split("=", 1) for pair in properties.get("ENVIRONMENT", []))
        environment.pop("TILESMITH_CACHE_DIR", None)
        yield {"name": test["name"], "program": pathlib.Path(program).name,
               "arguments": [a.replace(str(ROOT), "{root}") for a in arguments],
               "environment": {k: v.replace(str(build), "{pack}") for k, v in environment.items()}}


def pack(options):
    build, folder = pathlib.Path(options.build).resolve(), pathlib.Path(options.folder)
    if not (build / "bin/tilesmith").exists():
        sys.exit(f"{build} holds no build: make, or --build FOLDER")
    used = {build / "bin/tilesmith"}
    tasks = [*python_tasks(build), *ctest_tasks(build, used)]
    for program in used:
        strip(program, folder / "bin")
    for library in ("libtilesmith.so", "libtilesmith_drop_in.so"):
        strip(build / "lib" / library, folder / "lib")
    sections = build / "tests/cases/small_sections"
    subprocess.run(["cp", "-a", "--parents", sections.relative_to(build), folder.resolve()], cwd=build, check=True)
    (folder / "tasks.json").write_text(json.dumps(tasks, indent=0))
    print(f"{len(tasks)} tasks")


def run_task(task, folder, end):
    left = end - time.monotonic()
    if left < 1:
        return {"name": task["name"], "status": "not run", "seconds": 0.0, "output": ""}
    environment = os.environ | {"TILESMITH_CACHE_DIR": str(folder / "store")}
    if "python" in task:
        environment |= {"TILESMITH_CACHE_DIR": str(folder / "store/python"), "TILESMITH_LIBRARY": str(folder / "lib/libtilesmith.so"),
                        "TILESMITH_DROP_IN": str(folder / "lib/libtilesmith_drop_in.so"), "PYTHONPATH": str(ROOT / "python"),
                        "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "2", "TILESMITH_TEST_SHARE": task["share"]}
        command, where = ["python3", "-m", "pytest", "--no-header", task["python"]], ROOT / "tests/python"
    else:
        environment |= {name: value.replace("{pack}", str(folder)) for name, value in task["environment"].items()}
        command = [folder / "bin" / task["program"], *(a.replace("{root}", str(ROOT)) for a in task["arguments"])]
        where = folder
    start = time.monotonic()
    try:
        done = subprocess.run(command, cwd=where, env=environment, timeout=left, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace")
        status, output = "passed" if done.returncode == 0 else f"failed ({done.returncode})", done.stdout
    except subprocess.TimeoutExpired as late:
        status, output = "cut off", (late.stdout or b"").decode(errors="replace")
    return {"name": task["name"], "status": status, "seconds": round(time.monotonic() - start, 1), "output": output}


def run(options):
    folder = pathlib.Path(options.folder).resolve()
    if not (folder / "tasks.json").exists():
        sys.exit(f"{folder} holds no tasks.json: tools/gpu_suite.py pack {options.folder}, where the build is, makes it")
    (folder / "store/python").mkdir(parents=True, exist_ok=True, mode=0o700)
    tasks = [t for t in json.loads((folder / "tasks.json").read_text()) if options.only.search(t["name"])]
    kept = folder / "results.json"
    seconds = {r["name"]: r["seconds"] for r in json.loads(kept.read_text())} if kept.exists() else {}
    tasks.sort(key=lambda t: -seconds.get(t["name"], 1e9))
    end = time.monotonic() + options.seconds
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(lambda task: run_task(task, folder, end), tasks))
    written = kept.with_suffix(".new")
    written.write_text(json.dumps(results, indent=0))
    written.replace(kept)  # a run that is killed leaves the last one's
    bad = [r for r in results if r["status"] != "passed"]
    for r in bad:
        print(f"== {r['name']}: {r['status']} after {r['seconds']} s\n{r['output'][-1500:]}")
    skipped = sum("SKIPPED" in r["output"] or " skipped" in r["output"] for r in results)
    print(f"{len(results) - len(bad)} of {len(results)} tasks passed ({skipped} skip something)")
    for r in bad:
        print(f"  {r['status']}: {r['name']}")
    sys.exit(1 if bad or not results else 0)


def pattern(text):
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("pack")
    command.add_argument("folder")
    command.add_argument("--build", default=str(ROOT / "build"))
    command.set_defaults(call=pack)
    command = commands.add_parser("run")
    command.add_argument("folder")
    command.add_argument("--jobs", type=int, default=os.cpu_count())
    command.add_argument("--seconds", type=float, default=3600)
    command.add_argument("--only", type=pattern, default=re.compile(""), help="a regular expression that names of tasks match")
    command.set_defaults(call=run)
    options = parser.parse_args()
    options.call(options)


if __name__ == "__main__":
    main()
