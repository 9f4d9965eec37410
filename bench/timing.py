"""How the scripts of bench/ time calls. Everything here is interleaved and cold: contenders take turns, and what a call reads is in no cache.

GPU, three ways:
- `burst_medians`: a call is captured as a graph that walks sets of operands of more than 200 MB together, so that L2 is cold. A turn is a rest, an
  uncounted replay, and a burst of about 10 ms between two events. Without a rest the board's power limit sets the clock, and what the contender
  before drew is felt for a while, so a quarter of the burst goes before it, uncounted. For calls of microseconds.
- `flushed_medians`: L2 is overwritten before each call, and two events stand around it. For calls of a tenth of a millisecond and more.
- `Burst`: one contender of the first way, for a script that takes the turns itself.

CPU: `cpu_seconds`, calls in turn over sets of operands that no cache holds.

PyTorch is imported by what needs it, so that the CPU part runs without it.
"""
import math
import random
import statistics
import time

COLD_BYTES = 200 << 20  # more than L2 holds, several times over
GRAPH_MS = 0.5  # a replay's first kernel does not overlap the last of the replay before, as kernels within a graph do
MOST_SETS = 64


def rotating_sets(make, size_of, cold_bytes=COLD_BYTES):
    """Sets of operands that together are beyond the cache, and the bytes of one; make() makes a set."""
    first = make()
    size = sum(size_of(x) for x in first)
    return [first] + [make() for _ in range(min(MOST_SETS - 1, -(-cold_bytes // max(size, 1))))], size


def sets_of(make):
    """The same for torch tensors and the L2 of a GPU."""
    return rotating_sets(make, lambda x: x.numel() * x.element_size())


def graph_of(call, sets, calls):
    import torch

    for each in sets:  # plans, and whatever a library does once
        call(*each)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(calls):
            call(*sets[i % len(sets)])
    return graph


class Burst:
    """A call as a captured graph over its sets of operands, timed burst by burst."""

    def __init__(self, call, sets, rest=0.05):
        self._calls = len(sets)
        self._graph = graph_of(call, sets, self._calls)
        self._milliseconds = self._turn(rest, 1)  # an estimate, replaced by the first turn that counts
        passes = math.ceil(GRAPH_MS / (self._milliseconds * self._calls))
        if passes > 1:
            self._calls *= passes
            self._graph = graph_of(call, sets, self._calls)

    def milliseconds(self, rest, burst_ms=10):
        """Of one call, in a burst of about burst_ms after a rest of so many seconds."""
        self._milliseconds = self._turn(rest, max(1, int(burst_ms / (self._milliseconds * self._calls))))
        return self._milliseconds

    def _turn(self, rest, replays):
        import torch

        torch.cuda.synchronize()
        time.sleep(rest)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for _ in range(1 if rest > 0 else math.ceil(replays / 4)):
            self._graph.replay()
        begin.record()
        for _ in range(replays):
            self._graph.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / (self._calls * replays)


def in_turn(names, rounds):
    """The names once a round, in a random order that is the same in each run: a call is felt in the time of the one after it (up to 6 % of 0.1 ms, H100)."""
    names, order = list(names), random.Random(1)
    for turn in range(rounds):
        for name in order.sample(names, len(names)):
            yield turn, name


def burst_medians(contenders, rounds, rest, burst_ms=10):
    """Median milliseconds of a call of each of the contenders, {name: (what takes a set of operands, its sets)}."""
    bursts = {name: Burst(call, sets, rest) for name, (call, sets) in contenders.items()}
    times = {name: [] for name in contenders}
    for _, name in in_turn(contenders, rounds):
        times[name].append(bursts[name].milliseconds(rest, burst_ms))
    return {name: statistics.median(each) for name, each in times.items()}


def flushed_medians(calls, rounds, rest):
    """Median milliseconds of each call, {name: call}. With a rest, a turn is five calls on a rested chip, the first of them not counted."""
    import torch

    flush = torch.empty(192 << 20, dtype=torch.int8, device="cuda")
    events = {name: [] for name in calls}
    warm = 0 if rest else 2
    for turn, name in in_turn(calls, rounds + warm):
        if rest:
            torch.cuda.synchronize()
            time.sleep(rest)
        for i in range(5 if rest else 1):
            flush.zero_()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            calls[name]()
            end.record()
            if i if rest else turn >= warm:
                events[name].append((begin, end))
    torch.cuda.synchronize()
    return {name: statistics.median(a.elapsed_time(b) for a, b in pairs) for name, pairs in events.items()}


def cpu_seconds(call, sets, seconds, clock=time.perf_counter):
    """The least time of one call over sets of operands in turn, in about so many seconds: every set is used at least once."""
    best, at, end = math.inf, 0, time.perf_counter() + seconds
    while at < len(sets) or time.perf_counter() < end:
        begin = clock()
        call(*sets[at % len(sets)])
        best = min(best, clock() - begin)
        at += 1
    return best


def geometric_mean(ratios):
    return math.exp(statistics.fmean(map(math.log, ratios)))
