#!/usr/bin/env bash
# A real Slurm: an array of four workers on two nodes; one is cancelled, one node dies, one task comes to its time limit. Nothing is
# lost. Needs root and Debian's slurmctld, slurmd, slurm-client, munge; without them it is skipped, and that is counted.
for program in slurmctld slurmd munged sbatch scontrol; do
  command -v $program >/dev/null || { echo "SKIPPED: $program is not installed"; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "SKIPPED: slurmd wants root"; exit 77; }
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
S=$TMP/slurm
mkdir -p "$S"/{state,dev,gk1,gk2} "$TMP/k"
mark="SLURM_CONF=$S/slurm.conf"
# Everything that was started under our configuration, and nothing else: by what stands in its environment.
ours() { # and also this text, if given
  local file pid
  for file in /proc/[0-9]*/environ; do
    pid=${file#/proc/}
    pid=${pid%/environ}
    [ "$pid" = $$ ] || { grep -qzxF "$mark" "$file" 2>/dev/null && { [ -z "${1:-}" ] || grep -qzxF "$1" "$file" 2>/dev/null; } && printf '%s\n' "$pid"; }
  done
}
reap() {
  local pid
  for _ in 1 2 3; do
    for pid in $(ours); do kill -9 "$pid" 2>/dev/null; done
  done
  cleanup
}
trap reap EXIT
trap 'exit 1' TERM INT # so that reap runs then too

# ---- the cluster
for node in gk1 gk2; do
  for gpu in 0 1; do mknod "$S/dev/$node-gpu$gpu" c 1 3 || { echo "SKIPPED: mknod is not allowed here"; exit 77; }; done
  printf 'NodeName=%s Name=gpu File=%s/dev/%s-gpu[0-1]\n' $node "$S" $node >>"$S/gres.conf"
done
host=$(hostname -s)
port=$(python3 - <<'PY'
import socket
held = [socket.socket() for _ in range(4)]
for s in held:
    s.bind(("127.0.0.1", 0))
print(*[s.getsockname()[1] for s in held])
PY
)
read -r p0 p1 p2 listen <<<"$port"
cat >"$S/slurm.conf" <<CONF
ClusterName=gk
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$S/munge.sock,cred_expire=2
SlurmctldPort=$p0
StateSaveLocation=$S/state
SlurmdSpoolDir=$S/%n
SlurmctldPidFile=$S/slurmctld.pid
SlurmdPidFile=$S/%n/slurmd.pid
SlurmctldLogFile=$S/slurmctld.log
SlurmdLogFile=$S/%n/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
GresTypes=gpu
MpiDefault=none
ReturnToService=2
SlurmdTimeout=5
KillWait=20
JobRequeue=1
SchedulerParameters=sched_interval=1,batch_sched_delay=0
NodeName=gk1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$p1 CPUs=4 Gres=gpu:2 State=UNKNOWN
NodeName=gk2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$p2 CPUs=4 Gres=gpu:2 State=UNKNOWN
PartitionName=all Nodes=gk1,gk2 Default=YES MaxTime=INFINITE State=UP
CONF
head -c 1024 /dev/urandom >"$S/munge.key"
chmod 600 "$S/munge.key"
export SLURM_CONF=$S/slurm.conf
munged -F --force --socket="$S/munge.sock" --key-file="$S/munge.key" --pid-file="$S/munged.pid" --log-file="$S/munged.log" --seed-file="$S/munge.seed" >"$S/munged.out" 2>&1 &
children+=("$!")
eventually 20 test -S "$S/munge.sock" || bad "munged: $(cat "$S/munged.out")"
slurmctld -D >"$S/slurmctld.out" 2>&1 &
children+=("$!")
node_up() { # name
  slurmd -D -N "$1" >"$S/$1.out" 2>&1 &
  node=$!
  children+=("$node")
}
node_up gk1
node_up gk2
all_idle() { [ "$(sinfo -h -N -o %t 2>/dev/null | sort -u)" = idle ]; }
eventually 40 all_idle || bad "the cluster did not come up: $(sinfo -N 2>&1; tail -n 5 "$S"/slurmctld.log)"

# ---- the daemon and its work
cp "$SRC"/tests/data/worker/add/{op.json,reference.cu,add_some.cu,add_some.kernel.json} "$TMP/k/"
printf '{"run_ms": 400, "rules": []}' >"$TMP/k/mock.json"
printf '{"op":"add","shapes":[{"n":[1024,2048,4096,8192,16384,32768]}]}' >"$TMP/k/shapes.json"
budget=54 problems=6
: >"$TMP/daemon.out"
"$BIN/gktune" keys new workers --roles work --pool --out "$TMP/workers.key" >/dev/null 2>"$TMP/err" || bad "keys: $(cat "$TMP/err")"
"$BIN/gktuned" --state "$GKTUNE_STATE" --listen "ipc://$GKTUNE_STATE/gktuned.sock" --listen "tcp://127.0.0.1:$listen" >>"$TMP/daemon.out" 2>"$TMP/daemon.err" &
children+=("$!")
eventually 20 grep -q ready "$TMP/daemon.out" || bad "no daemon: $(cat "$TMP/daemon.err")"
"$BIN/gktune" submit "$TMP/k/add_some.kernel.json" --shapes "$TMP/k/shapes.json" --arch mock-sm_80 --budget $budget --strategy random >/dev/null 2>"$TMP/err" || bad "submit: $(cat "$TMP/err")"
trials() { "$BIN/gktune" trials 1 --json >"$TMP/trials" 2>/dev/null; }
recorded() { trials && [ "$(grep -o '"state":"recorded"' "$TMP/trials" | wc -l)" -ge "$1" ]; }
connected() { [ "$("$BIN/gktune" workers --json 2>/dev/null | grep -o '"state":"connected"' | wc -l)" = "$1" ]; }
shown() { "$BIN/gktune" workers --json 2>/dev/null | grep -q "\"job\":\"slurm:$1\""; }
array() { # tasks, time, sbatch options... -> job number
  local tasks=$1 time=$2
  shift 2
  GKTUNE_WORKER_OPTIONS='--device mock:sm_80' "$SRC/deploy/slurm/submit-workers" --connect "tcp://127.0.0.1:$listen" --key "$TMP/workers.key" --gpus "$tasks" \
    --spool "$TMP/spool" --worker "$BIN/gktune-worker" -- --cpus-per-task=1 --time="$time" --output="$TMP/log-%A_%a" "$@"
}

# ---- an array of four, each with a GPU of its own
id=$(array 4 60) || bad "sbatch: $id"
eventually 60 connected 4 || bad "four workers: $("$BIN/gktune" workers; squeue; cat "$TMP"/log-* 2>/dev/null)"
for task in 0 1 2 3; do shown "${id}_$task" || bad "task $task is not shown: $("$BIN/gktune" workers)"; done
gpus=$(for pid in $(ours); do
  [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = gktune-worker ] && tr '\0' '\n' <"/proc/$pid/environ" | grep -E '^(SLURMD_NODENAME|CUDA_VISIBLE_DEVICES)=' | sort | paste -sd' ' -
done | sort -u)
[ "$(printf '%s\n' "$gpus" | wc -l)" = 4 ] || bad "not a GPU for each: $gpus"
eventually 60 recorded 8 || bad "no trials: $(cat "$TMP"/log-*)"

# ---- one is cancelled: it drains and does not come again
scancel "${id}_0" || bad "scancel"
eventually 40 grep -sq 'workers.sbatch: drained' "$TMP/log-${id}_0" || bad "the cancelled one: $(cat "$TMP/log-${id}_0")"
grep -Eq 'draining: SIGTERM; [0-9]+ leases given back' "$TMP/log-${id}_0" || bad "it did not drain: $(cat "$TMP/log-${id}_0")"
eventually 20 connected 3 || bad "three workers: $("$BIN/gktune" workers)"

# ---- a node dies with all that runs there: its tasks come again elsewhere, over their spools
victim=$(squeue -h -j "$id" -w gk2 -t R -o %K | sort -n | tail -n 1)
[ -n "$victim" ] || bad "nobody runs on the second node: $(squeue)"
# Its daemons first: a node without power reports nothing.
mapfile -t tasks < <(ours "SLURMD_NODENAME=gk2")
mapfile -t steps < <(for pid in "${tasks[@]}"; do
  read -r _ _ _ parent _ 2>/dev/null <"/proc/$pid/stat" && [ "$(cat "/proc/$parent/comm" 2>/dev/null)" = slurmstepd ] && printf '%s\n' "$parent"
done | sort -u)
kill -9 "$node" "${steps[@]}" "${tasks[@]}" 2>/dev/null
[ ${#steps[@]} -gt 0 ] || bad "no step of Slurm on the second node"
# Slurm lets a requeued task wait two minutes: not here.
again() { # job, task
  scontrol update JobId="$1_$2" StartTime=now >/dev/null 2>&1
  shown "$1_$2 restart 1"
}
eventually 90 again "$id" "$victim" || bad "task $victim did not come again: $(squeue; sinfo; tail -n 20 "$S/slurmctld.log")"
node_up gk2

# ---- a time limit: it drains in time, and goes back into the queue by itself
limited=$(array 1 1 --signal=B:USR1@45) || bad "sbatch: $limited"
eventually 100 grep -sq 'drained before the time limit, back into the queue' "$TMP/log-${limited}_0" || bad "the limited one: $(squeue; cat "$TMP/log-${limited}_0")"
grep -q 'draining: SIGUSR1' "$TMP/log-${limited}_0" || bad "it did not drain: $(cat "$TMP/log-${limited}_0")"
# It comes again in two minutes: a node takes no new credential of a task that it ended just now, so this is not hurried.
requeued() { scontrol show job "$limited" 2>/dev/null | grep -q 'Restarts=[1-9]'; }
eventually 60 requeued || bad "it was not requeued: $(scontrol show job "$limited")"
grep -q 'TIME LIMIT\|DUE TO TIME' "$TMP/log-${limited}_0" && bad "Slurm had to kill it"

# ---- nothing is lost, nothing done twice, nothing given back counts
eventually 120 recorded $((budget * problems)) || bad "the job did not end: $("$BIN/gktune" show 1; "$BIN/gktune" workers; squeue)"
python3 - "$TMP/trials" $budget $problems <<'PY' || bad "trials were lost or repeated"
import json, sys
trials = json.load(open(sys.argv[1]))["trials"]
assert len(trials) == int(sys.argv[2]) * int(sys.argv[3]), len(trials)
assert len({(t["task"], t["config"]) for t in trials}) == len(trials), "a config twice"
assert all(t["state"] == "recorded" for t in trials), [t for t in trials if t["state"] != "recorded"][:3]
# The node's death costs what its two workers had begun, four leases each at most; a drain costs nothing.
assert sum(t["attempt"] for t in trials) <= 8, [(t["trial"], t["attempt"]) for t in trials if t["attempt"]]
PY
"$BIN/gktune" db check >/dev/null || bad "the store is damaged"
scancel "$id" "$limited" 2>/dev/null
none() { [ -z "$(squeue -h -t R,CG 2>/dev/null)" ]; }
eventually 40 none || bad "jobs are left: $(squeue)"
# The wrapper refuses what cannot work, before Slurm sees it.
"$SRC/deploy/slurm/submit-workers" --connect tcp://x:1 --gpus 2 >/dev/null 2>"$TMP/err"
[ $? = 2 ] && grep -q 'tcp needs --key' "$TMP/err" || bad "tcp without a key: $(cat "$TMP/err")"
"$SRC/deploy/slurm/submit-workers" --connect ipc:///x --gpus 0 >/dev/null 2>"$TMP/err"
[ $? = 2 ] || bad "no workers"
GKTUNE_KEY='' "$SRC/deploy/slurm/submit-workers" --connect ipc:///x --gpus 8 --at-once 2 --dry-run -- -p gpu | grep -q -- '--array=0-7%2 -p gpu .*workers.sbatch' || bad "a dry run"
finish "an array of 4, a cancelled one, a dead node, a time limit"
