#!/usr/bin/env python3
"""Times decode of tilesmith on the CPU beside the machine's rate of reading: torch.sum of 256 MiB, which is also what empties the caches before each call.

    taskset -c 0 bench/peers/cpu_decode.py --threads 1 --types bf16,fp32
    taskset -c 0,1 bench/peers/cpu_decode.py --threads 2 --peer            # PyTorch's scaled_dot_product_attention as a third, by turns

Problems are batch x keys : query heads / key heads, head dim 128, one query. Reported are medians: bytes of keys and values over the time of a call, and their share of
the bytes of the sum over its time.
"""
import argparse
import re
import statistics
import time

DIM = 128
SUMMED_BYTES = 256 << 20


def seconds_of(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*", default=["1x8192:8/8", "1x8192:32/8", "1x8192:64/8"])
    parser.add_argument("--types", default="bf16,fp32")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=21)
    parser.add_argument("--peer", action="store_true", help="PyTorch's attention as well")
    options = parser.parse_args()

    import torch

    import tilesmith

    types = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
    torch.set_num_threads(options.threads)
    summed = torch.ones(SUMMED_BYTES // 4)
    print(f"{'type':5}{'problem':16}{'sum GB/s':>9}{'GB/s':>7}{'share':>7}{'peer':>7}  kernel")
    for name in options.types.split(","):
        for problem in options.problems:
            batch, keys, heads_q, heads_kv = map(int, re.fullmatch(r"(\d+)x(\d+):(\d+)/(\d+)", problem).groups())
            q = torch.randn(batch, heads_q, 1, DIM, dtype=types[name])
            k, v = (torch.randn(batch, heads_kv, keys, DIM, dtype=types[name]) for _ in range(2))
            calls = [lambda: tilesmith.attention(q, k, v)]
            if options.peer:
                calls.append(lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=heads_q != heads_kv))
            sums, times = [], [[] for _ in calls]
            with torch.inference_mode(), tilesmith.options(threads=options.threads):
                for turn in range(options.turns + 1):
                    for call, samples in zip(calls, times):
                        summing, calling = seconds_of(summed.sum), seconds_of(call)
                        if turn > 0:  # the first one plans and compiles
                            sums.append(summing)
                            samples.append(calling)
                calls[0]()
                kernel = tilesmith.last_plan().kernel
            rate, *rates = SUMMED_BYTES / statistics.median(sums), *((k.nbytes + v.nbytes) / statistics.median(x) for x in times)
            peer = f"{rates[0] / rates[1]:7.2f}" if options.peer else f"{'-':>7}"
            print(f"{name:5}{problem:16}{rate / 1e9:9.2f}{rates[0] / 1e9:7.2f}{rates[0] / rate:7.3f}{peer}  {kernel}", flush=True)


if __name__ == "__main__":
    main()
