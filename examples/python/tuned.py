"""Tuning: measure the candidates of a call once, publish the choices as a file, and use the file in any process."""

import pathlib
import tempfile

import numpy as np
import tilesmith

x, w = (np.random.default_rng(1).standard_normal(shape, dtype=np.float32) for shape in ((33, 128), (96, 128)))
with tempfile.TemporaryDirectory() as folder:
    choices = pathlib.Path(folder) / "choices.json"
    try:
        report = tilesmith.tune(tilesmith.linear, x, w, file=choices, database=pathlib.Path(folder) / "measured.db", budget=3)
    except tilesmith.Unsupported as error:  # the wheel has no program that measures
        print(error)
    else:
        with tilesmith.tuning(choices):
            tilesmith.linear(x, w)
            plan = tilesmith.last_plan()
        print(f"{report.problems[0].gain:.2f} times as fast as the first choice; {plan.kernel}, by {plan.source}")
        assert plan.source == "measurement"
