"""What became of one run of a kernel with a fault in it."""

import json


class Outcome:
    """A word (passed, found, unreached or broken), why, and the digests of the run's machine code."""

    def __init__(self, word, text="", code=()):
        self.word, self.text, self.code = word, text.strip(), tuple(code)


def outcome_of(done, code, kernel=None):
    """The outcome of a finished `tilesmith run --verify --json`, which should have run `kernel`, if that is named."""
    if done.returncode < 0:
        return Outcome("found", f"signal {-done.returncode}", code)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        return Outcome("broken", done.stderr, code)
    if "could not be had" in report["reason"] or kernel not in (None, report["kernel"]):
        return Outcome("broken", report["reason"], code)  # the fault does not compile: another kernel answered
    outcome = report["verify"]["outcome"]
    if (outcome == "fail") != (done.returncode == 1):
        return Outcome("broken", f"outcome {outcome} and exit status {done.returncode}", code)
    word = {"fail": "found", "pass": "passed"}.get(outcome, "broken")
    return Outcome(word, report["verify"].get("reason", "") or outcome, code)
