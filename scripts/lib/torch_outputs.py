#!/usr/bin/env python3
"""torch.compile's RMS norm and residual where its outputs rotate with its inputs, as policy cold-graph has them, and where
they do not; beside it ours, as `gktune run --export` wrote it to a folder.

A captured program that lets its outputs go after each launch gets the same memory for the next ones, which then stays in L2:
nothing of what it writes goes to memory while it is timed. Both ways are timed here, in turn, on the same sets:
`.._again` lets go, `.._kept` keeps the outputs of a set until the set comes again. `add_kept` is torch's sum of x and
residual, stored twice: what reading and writing as much takes without the norm.

Each turn puts the outputs somewhere else, in case that matters (on an H200 it does not). torch is asked several times, since its
tuner takes now one and now another of its kernels, some of them a tenth slower; the fastest counts.

usage: torch_outputs.py [FOLDER]  -> JSON lines as the peers' program writes them
"""
import json
import math
import sys
import types

import torch
import torch._inductor.config
import torch.nn.functional as F

import exported_norm

SHAPES = [(256, 4096)]
TURNS, LAUNCHES, REPLAYS = 5, 2000, 8
SPACER_BYTES = 5 << 19
COMPILATIONS = 4


def median(values):
    return sorted(values)[len(values) // 2]


def timed(function, sets, keeps, turn):
    """Milliseconds a launch. `turn`: how far its outputs are moved."""
    launches = math.ceil(LAUNCHES / len(sets)) * len(sets)
    stream, graph, kept = torch.cuda.Stream(), torch.cuda.CUDAGraph(), [None] * len(sets)
    with torch.cuda.stream(stream):
        for inputs in sets[:3]:
            function(*inputs)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            spacer = torch.empty(turn * SPACER_BYTES, dtype=torch.uint8, device="cuda")
            for i in range(launches):
                out = function(*sets[i % len(sets)])
                if keeps:
                    kept[i % len(sets)] = out
                del out
            del spacer
        samples = []
        for replay in range(REPLAYS + 1): # the first one carries the graph to the device
            begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
            begin.record(stream)
            graph.replay()
            end.record(stream)
            torch.cuda.synchronize()
            samples.append(begin.elapsed_time(end) / launches)
    return median(samples[1:])


def compiled_anew(function, inputs):
    """By a tuner that remembers nothing: a copy of the code has no entry in any cache."""
    copy = types.FunctionType(function.__code__.replace(), function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    with torch._inductor.config.patch(force_disable_caches=True):
        compiled = torch.compile(copy, dynamic=False)
        compiled(*inputs)
    return compiled


def exported(folder, weight, rows, cols):
    """Ours, called as torch's: what it returns lies in memory that torch gave."""
    launch = exported_norm.describe(folder, rows, cols)
    kernel = exported_norm.Kernel(launch, exported_norm.compile_launch(folder, launch))

    def norm(x, residual):
        y, h = torch.empty_like(x), torch.empty_like(x)
        kernel.run(torch.cuda.current_stream().cuda_stream, {
            "x": x.data_ptr(), "residual_in": residual.data_ptr(), "weight_row": weight.data_ptr(), "residual_out": h.data_ptr(),
            "y": y.data_ptr()})
        return y, h
    return norm


def same_results(ours, others, inputs):
    for mine, other in zip(ours(*inputs), others(*inputs)):
        torch.testing.assert_close(mine, other, rtol=2 ** -6, atol=1e-3)


def main():
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    for rows, cols in SHAPES:
        def normal(*extents):
            return torch.randn(*extents, device="cuda", dtype=torch.bfloat16)
        weight = normal(cols)

        def norm(x, residual):
            h = x + residual
            return F.rms_norm(h, (cols,), weight, 1e-6), h

        def add(x, residual):
            h = x + residual
            return h, h.clone()
        count = math.ceil(10 * l2 / (4 * 2 * rows * cols)) # with their outputs ten times the L2
        sets = [(normal(rows, cols), normal(rows, cols)) for _ in range(count)]
        ways = [("compile", compiled_anew(norm, sets[0])) for _ in range(COMPILATIONS)]
        ways.append(("add", compiled_anew(add, sets[0])))
        if len(sys.argv) > 1:
            ours = exported(sys.argv[1], weight, rows, cols)
            same_results(ours, norm, sets[0])
            ways.append(("ours", ours))
        for keeps, how in ((False, "again"), (True, "kept")):
            times = [[] for _ in ways]
            for turn in range(TURNS):
                for taken, (_, function) in zip(times, ways):
                    taken.append(timed(function, sets, keeps, turn))
            for who in dict.fromkeys(who for who, _ in ways):
                each = [taken for taken, (name, _) in zip(times, ways) if name == who]
                best = min(each, key=median)
                print(json.dumps({"op": "rmsnorm_residual", "M": rows, "N": cols, "impl": who + "_" + how, "ms": median(best),
                                  "turns_ms": best, "of_ms": [median(taken) for taken in each]}), flush=True)


if __name__ == "__main__":
    main()
