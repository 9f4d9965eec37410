#!/usr/bin/env python3
"""Fit the figures of a convolution pipeline's model (conv.models of a chip) to timings of its kernels.

    tilesmith bench --op conv --oracle --shapes few.txt --candidates 12 --rounds 6 --device cuda:0 --csv oracle.csv
    python3 tools/fit_conv.py oracle.csv --pipeline direct --spec specs/cuda/sm_90a.json [--regret] [--bandwidth 3.35e12] [--write]

One figure after another is multiplied by 0.8 to 1.25, as often as that makes the predicted seconds of the pipeline's kernels differ less from those
measured (root of the mean square of logarithms), or, with --regret, as that makes the first choice faster where other pipelines' predictions err as
well. The clock stays: cycles were counted at it. The program predicts with the changed spec
(fitting.py); no formula is repeated here. A figure that gains nothing stays. Printed: the figures that moved, the error of predictions and the
regret of the first choice before and after, and of five folds that have not seen the problem. --bandwidth: of the device that the timings are of,
where it is not the spec's.
"""
import re

import fitting

# Of each pipeline, its kernels' names and its figures but the clock.
PIPELINES = {
    "direct": ("conv_.*_direct_", ("load_cycles", "copy_cycles", "result_cycles", "box_cycles", "filter_cycles", "begin_us")),
    "pointwise": ("conv_.*_pointwise_", ("product_cycles", "filter_cycles", "begin_us", "memory", "under_way_bytes")),
    "stem": ("conv_.*_stem_", ("products", "unit_cycles", "step_cycles", "warps", "begin_us")),
    "gather": ("conv_.*_mma_sm80_", ("begin_us", "data_begin_us", "weight_begin_us", "tile_us", "result_ns", "weight_result_ns", "copy_ns",
                                     "data_column_copy_ns", "weight_copy_ns", "sm_copy_ns", "cuts")),
}  # fmt: skip
FACTORS = (1.25, 0.8, 1.06, 0.94)
LEAST_GAIN = 1e-3
PASSES = 12
OF_WORST = 0.2  # of the largest regret, beside the mean


def scaled(text, moves):
    """The spec's text with the figures multiplied, {(pipeline, figure): factor}."""
    for (pipeline, figure), factor in moves.items():
        models = text.index('"models": {', text.index('"conv": {'))
        begin = text.index(f'"{pipeline}": {{', models)
        end = text.index("}", begin)
        block = re.sub(rf'("{figure}": )([0-9.e+]+)', lambda m: f"{m[1]}{float(m[2]) * factor:.3g}", text[begin:end])
        text = text[:begin] + block + text[end:]
    return text


def fit_of(options):
    kernels, figures = PIPELINES[options.pipeline]
    choices = [((options.pipeline, figure), FACTORS) for figure in figures]
    own = lambda name: re.match(kernels, name) is not None  # noqa: E731
    if options.regret:
        return fitting.Fit(scaled, choices, LEAST_GAIN, of_worst=OF_WORST, passes=PASSES, compound=True, times=own)
    return fitting.Fit(scaled, choices, LEAST_GAIN, passes=PASSES, compound=True, predicts=own, times=own)


def arguments(parser):
    parser.add_argument("--pipeline", choices=sorted(PIPELINES), required=True)
    parser.add_argument("--regret", action="store_true", help="fit to the regret of the first choice, among all pipelines' kernels, in place of the error")


if __name__ == "__main__":
    fitting.main(__doc__, fit_of, arguments)
