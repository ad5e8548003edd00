"""Parts `twins` and `check` of scripts/gpu-figures, and their page: what the verifier says of sources that are broken on
purpose, on a GPU, and what it costs to run finalists on the emulated device too (gktune run --check)."""
import json
import os
import re
import subprocess

CHECKED = [ # as small as models have them, and as large
    ("rmsnorm_residual", {"rows": 256, "cols": 4096}),
    ("attention", {"batch": 1, "q_heads": 32, "kv_heads": 8, "head_dim": 128, "seq_q": 1024}),
    ("attention_decode", {"batch": 8, "q_heads": 32, "kv_heads": 8, "head_dim": 128, "kv_len": 4096}),
    ("mla_decode", {"batch": 128, "q_heads": 16, "kv_len": 4096}),
    ("gemm", {"M": 4096, "N": 4096, "K": 4096}),
    ("swiglu_gateup", {"M": 2048, "N": 14336, "K": 4096}),
]
CHECK_BUDGET = 32
LINE = re.compile(r"^(rejected|PASSED|FAILED) +(.*?): (.*)$")
# As trials on a GPU climb them. Of the first three an op has one: that is how the slot beside the rotation is laid out.
RUNGS = {"exact": "small integers, every sum exact", "extreme": "inputs at the ends of their range",
         "alignment": "tensors aligned as promised and no better", "reference": "random inputs against the reference, set after set", "emulated": "the finalist's own code on a small problem, every access watched"}


def parse(text):
    """The lines of gpu_twins: name of the twin, whether it was rejected, how it ended."""
    return [{"how": how, "name": name, "ended": ended} for how, name, ended in
            (found.groups() for found in map(LINE.match, text.splitlines()) if found)]


def find_program(bundle):
    return next((path for path in (os.path.join(bundle, folder, "gpu_twins") for folder in ("bin", "tests")) if os.access(path, os.X_OK)), None)


def run_twins(call, root, Failed, Stopped):
    program = find_program(call.options.bundle)
    if not program:
        raise Failed("no gpu_twins in '%s': a bundle has it if it was made with --tests" % call.options.bundle)
    words = [os.path.abspath(program), (call.options.device or ["cuda:0"])[0], call.options.twins]
    call.log("$ " + " ".join(words))
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             env={**os.environ, "GKTUNE_SOURCE": root}, errors="replace")
    out, stopped = call.wait(child)
    for twin in parse(out):
        call.emit("twin", **twin)
    if stopped:
        raise Stopped()
    if child.returncode != 0:
        raise Failed("gpu_twins: exit status %d: %s" % (child.returncode, out.strip()[-300:]))


def run_check(call, base, Stopped):
    for op, fields in CHECKED:
        if call.had("check", op=op):
            continue
        shapes = os.path.join(base, "check-%s.json" % op)
        with open(shapes, "w", encoding="utf-8") as text:
            json.dump({"op": op, "shapes": [fields]}, text)
        final_s = {}
        for more in ([], ["--check"]):
            if call.left() < 30:
                raise Stopped()
            done = call.tune(shapes, os.path.join(base, "check-%s%s" % (op, "".join(more))), CHECK_BUDGET, "--fresh", *more, op=op)
            final_s["checked_s" if more else "final_s"] = round(done["job"]["rates"]["final_s"], 2)
        call.emit("check", op=op, fields=fields, budget=CHECK_BUDGET, **final_s)


def page(lines, table, of_kind, machines, latest):
    out = ["# Broken on purpose, on an H200", "",
           "Made by `scripts/results-table --twins` from lines such as `scripts/gpu-figures .. twins check` writes (`data/h200-twins.jsonl`); each row "
           "carries its call, with the command that was run. A twin is an op of this tree with one mistake in its sources (`tests/data/bad_kernels/ops.txt` and `far.txt`): the unchanged "
           "sources are verified on the same problem with the same config first, then the changed ones must be rejected. The verifier is that of a worker with `--check`.", ""]
    out += machines(lines)
    twins = latest(of_kind(lines, "twin"), lambda line: line["name"])
    rejected = [twin for twin in twins if twin["how"] == "rejected"]
    counts = {}
    for twin in rejected:
        counts[twin["ended"]] = counts.get(twin["ended"], 0) + 1
    out += ["## Twins: %d of %d rejected" % (len(rejected), len(twins)), "",
            "Rungs, in the order in which they are climbed on a GPU (a problem has the first two as far as they apply, else the third), a twin ending at the first that it fails: " +
            "; ".join("`%s`: %s" % item for item in RUNGS.items()) + ". What ends without a rung was a fault of the GPU itself, or of what lies around a buffer.", ""]
    out += table(["ended as", "twins"], sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    out += table(["twin", "ended as", "call"], [[twin["name"], twin["ended"] if twin["how"] == "rejected" else "**%s**: %s" % (twin["how"], twin["ended"]),
                                                twin["call"]] for twin in twins])
    checks = latest(of_kind(lines, "check"), lambda line: line["op"])
    if checks:
        out += ["## What `--check` costs", "",
                "Seconds of the final round of one problem with a budget of %d trials, without and with finalists on the emulated device." % CHECK_BUDGET, ""]
        out += table(["op", "problem", "final round, s", "with --check, s", "call"],
                     [[line["op"], json.dumps(line["fields"]), "%.2f" % line["final_s"], "%.2f" % line["checked_s"], line["call"]] for line in checks])
    return out
