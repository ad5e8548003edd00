"""Part multi of scripts/gpu-figures: what two and more GPUs of one host do together. See run()."""
import itertools
import json
import os
import selectors
import shutil
import signal
import subprocess
import time

LIKE_4096 = [{"M": 4096, "N": 4096, "K": 4096}, {"M": 4096, "N": 5120, "K": 4096}]
KILLED = [{"M": 2048, "N": 4096, "K": 4096}, {"M": 4096, "N": 2048, "K": 4096}]
SMALL = [{"M": 16, "N": 4096, "K": 4096}, {"M": 64, "N": 4096, "K": 4096}, {"M": 128, "N": 2048, "K": 4096},
         {"M": 256, "N": 2048, "K": 2048}]
NORM = [{"rows": 8192, "cols": 8192}]
STAND_INS = [{"M": 16, "N": 64, "K": 64}, {"M": 32, "N": 64, "K": 64}] # modelled devices: small ones of the same op
KILL_SECONDS = 120
NOT = "not reported"


def listed(gktune):
    """All CUDA devices of this machine."""
    worker = os.path.join(os.path.dirname(gktune), "gktune-worker")
    done = subprocess.run([worker, "--list-devices"], stdout=subprocess.PIPE, text=True, timeout=60)
    return json.loads(done.stdout).get("devices", []) if done.returncode == 0 else []


class Multi:
    def __init__(self, call, base, failed, stopped):
        self.call, self.base, self.failed, self.stopped = call, os.path.join(base, "multi"), failed, stopped
        given = call.options.device or []
        self.devices = given or [device["device"] for device in self.listed()]
        if len(self.devices) < 2:
            raise failed("part multi needs two devices; there is %s" % (self.devices or "none"))
        self.modelled = any(not device.startswith("cuda") for device in self.devices)
        os.makedirs(self.base, mode=0o700, exist_ok=True)

    def listed(self):
        return listed(self.call.gktune)

    def shapes(self, name, rows, op="gemm", **more):
        path = os.path.join(self.base, name + ".json")
        rows = STAND_INS if self.modelled and op == "gemm" else rows
        with open(path, "w", encoding="utf-8") as out:
            json.dump({"op": op, "shapes": [{**row, **more} for row in rows]}, out)
        return path, len(rows)

    def tune(self, devices, *words, **more):
        kept, self.call.options.device = self.call.options.device, devices
        try:
            return self.call.tune(*words, **more)
        finally:
            self.call.options.device = kept

    def state(self, name):
        path = os.path.join(self.base, name)
        shutil.rmtree(path, ignore_errors=True) # a rate is of one uninterrupted run, from a cold cache
        return path

    # ---------------------------------------------------------------- configs a second

    def speed(self):
        counts = [1, 2] + [n for n in (4, 8) if n <= len(self.devices)]
        # Two problems: as many searches and final rounds as GPUs to share them, and twice the trials, so that the rate is not
        # that of the start.
        shapes, problems = self.shapes("speed", LIKE_4096, dtype="bf16")
        budget = 2 * self.call.options.multi_budget
        for count, which in itertools.product(counts, ("cold", "warm")):
            if self.call.had("multi_speed", devices=count, which=which):
                continue
            cold = os.path.join(self.base, "speed-%d" % count)
            state = self.state("speed-%d" % count + ("-warm" if which == "warm" else ""))
            if which == "warm": # a fresh store over the cold run's cache: what the GPUs do when compilers keep nobody waiting
                shutil.copytree(os.path.join(cold, "spool", "code"), os.path.join(state, "spool", "code"))
                os.chmod(state, 0o700)
            result = self.tune(self.devices[:count], shapes, state, budget)
            job = result["job"]["job"]
            shown = self.call.ask("show", str(job), "--state", state)
            rates = shown.get("rates") or shown["job"].get("rates") or {}
            self.call.emit("multi_speed", devices=count, which=which, cores=os.cpu_count(), problems=problems, rates=rates,
                           budget=budget, verified_per_s=rates.get("verified_per_s"),
                           gpu_busy=rates.get("gpu_busy"), wall_s=result["wall_s"], names=self.devices[:count])

    # ---------------------------------------------------------------- the spread

    def spread(self):
        state = os.path.join(self.base, "speed-2")
        for op, rows, more in (("gemm", LIKE_4096[:1], {"dtype": "bf16"}), ("rmsnorm_residual", NORM, {})):
            if self.call.had("multi_spread", op=op):
                continue
            shapes, _ = self.shapes("spread-" + op, rows, op=op, **more)
            self.tune(self.devices, shapes, state, 24, "--spread", op=op)
            groups = self.call.ask("workers", "--spread", "--op", op, "--state", state)["spreads"]
            if not any("spread" in group for group in groups):
                raise self.failed("no spread of %s was measured: %s" % (op, groups))
            for group in groups:
                self.call.emit("multi_spread", **group)

    # ---------------------------------------------------------------- one worker is killed

    def start(self, words, log, ready_s=60):
        """A program that says ready on standard output."""
        with open(log, "w", encoding="utf-8") as err:
            child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err, text=True)
        selector = selectors.DefaultSelector()
        selector.register(child.stdout, selectors.EVENT_READ)
        if not selector.select(timeout=ready_s) or not child.stdout.readline().startswith("ready"):
            child.kill()
            child.wait()
            with open(log, encoding="utf-8") as err:
                raise self.failed("%s is not ready: %s" % (os.path.basename(words[0]), err.read()[-500:]))
        return child

    def trials(self, state, job):
        return self.call.ask("trials", str(job), "--state", state)["trials"]

    def killed(self):
        if self.call.had("multi_kill"):
            return
        folder, state = os.path.dirname(self.call.gktune), self.state("killed")
        os.makedirs(state, mode=0o700)
        arch = self.devices[0].split("#")[0].replace(":", "-") if self.modelled else self.listed()[0]["arch"]
        shapes, problems = self.shapes("killed", KILLED, dtype="bf16")
        budget = self.call.options.multi_budget * 3 // 4
        programs = [self.start([os.path.join(folder, "gktuned"), "--state", state], state + ".daemon")]
        try:
            for index, device in enumerate(self.devices[:2]):
                programs.append(self.start([os.path.join(folder, "gktune-worker"), "--connect", "ipc://%s/gktuned.sock" % state,
                                            "--device", device, "--spool", "%s/spool-%d" % (state, index)],
                                           "%s.worker-%d" % (state, index)))
            begin = time.monotonic()
            job = self.call.ask("submit", "gemm", "--shapes", shapes, "--arch", arch, "--budget", str(budget), "--seed", "1",
                                "--state", state)["job"]
            self.kill_one(state, job, programs[1], problems * budget)
            while self.call.ask("show", str(job), "--state", state)["job"]["state"] not in ("done", "failed", "cancelled"):
                if self.call.left() < 1 or time.monotonic() - begin > KILL_SECONDS:
                    raise self.stopped() if self.call.left() < 1 else self.failed("the job does not end after a worker was killed")
                time.sleep(0.2)
            self.tell_kill(state, job, problems, budget, time.monotonic() - begin)
        finally:
            for program in reversed(programs):
                program.send_signal(signal.SIGINT)
            for program in programs:
                try:
                    program.wait(timeout=10)
                except subprocess.TimeoutExpired:
                    program.kill()
                    program.wait()
                program.stdout.close()

    def kill_one(self, state, job, program, asked):
        """Kills when both have recorded something, and before a half is done if that can be."""
        end = time.monotonic() + 60
        while time.monotonic() < end and self.call.left() > 1:
            rows = [trial for trial in self.trials(state, job) if trial["state"] == "recorded"]
            if len({trial["worker"] for trial in rows}) == 2 and len(rows) >= asked // 5:
                break
            time.sleep(0.05)
        program.kill()
        self.call.log("killed process %d, a worker, with %d of %d trials recorded" % (program.pid, len(rows), asked))

    def tell_kill(self, state, job, problems, budget, wall_s):
        rows, shown = self.trials(state, job), self.call.ask("show", str(job), "--state", state)
        places = [(trial["task"], trial["seq"]) for trial in rows]
        by_worker = {}
        for trial in rows:
            by_worker[str(trial.get("worker"))] = by_worker.get(str(trial.get("worker")), 0) + 1
        picks = self.call.ask("best", "gemm", "--state", state)["rows"]
        self.call.emit("multi_kill", state=shown["job"]["state"], asked=problems * budget, trials=len(rows),
                       recorded=sum(trial["state"] == "recorded" for trial in rows),
                       twice=len(places) - len(set(places)), parked=sum(trial["state"] == "parked" for trial in rows),
                       again=sum(trial["attempt"] > 0 for trial in rows), by_worker=by_worker, picks=len(picks), problems=problems,
                       wall_s=round(wall_s, 1))

    # ---------------------------------------------------------------- the same picks

    def ties(self):
        if self.call.had("multi_ties"):
            return
        shapes, problems = self.shapes("ties", SMALL, dtype="bf16")
        two, one = self.state("ties-2"), self.state("ties-1")
        budget = self.call.options.multi_budget // 2
        folder = os.path.join(self.base, "ties-export")
        shutil.rmtree(folder, ignore_errors=True)
        self.tune(self.devices[:2], shapes, two, budget, "--export", folder)
        # What two GPUs picked takes part in the rounds that one GPU judges: so it is compared, not only looked for.
        self.tune(self.devices[:1], shapes, one, budget, "--from", folder)
        picks = {which: {pick["problem"]: pick for pick in self.call.ask("best", "gemm", "--state", state)["rows"]}
                 for which, state in (("one", one), ("two", two))}
        rows = []
        for problem, pick in sorted(picks["one"].items()):
            other = picks["two"].get(problem)
            ties = [tie["config"] for tie in pick.get("ties", [])]
            rows.append({"problem": problem, "one": pick["config"], "two": other and other["config"], "ties": len(ties),
                         "in_ties": bool(other) and other["config"] in ties, "one_ns": pick["time_ns"],
                         "two_ns": other and other["time_ns"], "margin": pick["margin"]})
        self.call.emit("multi_ties", problems=problems, inside=sum(row["in_ties"] for row in rows), rows=rows)


def run(call, base, failed, stopped):
    """configs/s with one device and with two (and 4 and 8 where they are), the spread of two ops, a worker killed -9, picks of
    two devices beside the ties of one."""
    multi = Multi(call, base, failed, stopped)
    multi.speed()
    multi.killed()
    multi.spread()
    multi.ties()


# ------------------------------------------------------------------ tables

def sections(lines, of_kind, table, heading, us, number, percent):
    """For scripts/results-table."""
    out = heading("Several GPUs of one host", lines, "multi")
    speed = of_kind(lines, "multi_speed")
    base = {line.get("which", "cold"): line["verified_per_s"] for line in speed if line["devices"] == 1}
    if speed:
        warm = " Warm: a fresh store over the cold run's cache." if any(line.get("which") == "warm" for line in speed) else ""
        out += ["%d bf16 problems like 4096^3, %d trials each. Cold: the cubin cache is empty, and compilers have the cores of the host that "
                "executors leave, %d less one a GPU.%s" % (speed[-1]["problems"], speed[-1]["budget"], speed[-1]["cores"], warm), ""]
        out += table(["GPUs", "cache", "verified configs/s", "of one GPU's", "GPU busy", "compiled", "search s", "final rounds alone s",
                      "wall s", "call"], [
            [line["devices"], line.get("which", "cold"), number(line["verified_per_s"]),
             number(line["verified_per_s"] / base[line.get("which", "cold")], "%.2f")
             if base.get(line.get("which", "cold")) and line["verified_per_s"] else "-", percent(line["gpu_busy"]),
             line["rates"].get("cold", NOT), number(line["rates"].get("search_s")), number(line["rates"].get("final_s")),
             number(line["wall_s"]), line["call"]] for line in speed])
    for line in of_kind(lines, "multi_kill")[-1:]:
        out += ["One of two workers killed with signal 9 during a job: the job is %s with %d picks for %d problems; of %d trials that "
                "were asked for %d are recorded, %d twice, %d parked; %d began again (call %d)." % (
                    line["state"], line["picks"], line["problems"], line["asked"], line["recorded"], line["twice"], line["parked"],
                    line["again"], line["call"]), ""]
    rows = [[line["op"], line["problem"][len(line["op"]):], device["device"][:12] if device["device"].startswith(("GPU-", "MIG-")) else device["device"], us(device.get("time_ns")),
             number(device.get("ratio"), "%.4f"), "%.2f %%" % (100 * line["spread"]), line["regime"] or "-", line["call"]]
            for line in of_kind(lines, "multi_spread") if "spread" in line for device in line["devices"]]
    if rows:
        out += ["The same config on each GPU (`gktune workers --spread`); the ratio is to the median of the GPUs.", ""]
        out += table(["op", "problem", "GPU", "us", "ratio", "max-min", "regime", "call"], rows)
    for line in of_kind(lines, "multi_ties")[-1:]:
        out += ["Picks of a tuning on two GPUs in the tie sets of one on one GPU: **%d of %d** problems (call %d)." % (
            line["inside"], line["problems"], line["call"]), ""]
        out += table(["problem", "in the tie set", "same config", "tied", "one GPU us", "two GPUs us", "margin"], [
            [row["problem"], "yes" if row["in_ties"] else "**no**", "yes" if row["one"] == row["two"] else "no", row["ties"],
             us(row["one_ns"]), us(row["two_ns"]), "%.2f %%" % (100 * row["margin"])] for row in line["rows"]])
    return out
