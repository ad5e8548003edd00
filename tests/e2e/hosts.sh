#!/usr/bin/env bash
# Workers on three hosts, each a network namespace behind a veth of its own; the link of one goes down while it works: the
# others go on, it comes back with what it holds, and nothing runs twice. Then keys that are one host's, or some addresses'.
# Without namespaces this is skipped (exit status 77).
set -u
if [ -z "${GK_HOSTS_INSIDE:-}" ]; then
  if ! unshare -Urn true 2>/dev/null || ! command -v ip >/dev/null || ! command -v nsenter >/dev/null; then
    echo "skipped: no network namespaces here (unshare -Urn, ip and nsenter are needed)"
    exit 77
  fi
  GK_HOSTS_INSIDE=1 exec unshare -Urn bash "$0" "$@"
fi
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$TMP" || exit 1
if ! ip link set lo up 2>/dev/null || ! ip link add probe type veth peer name probe2 2>/dev/null; then
  echo "skipped: no veth here"
  exit 77
fi
ip link del probe
hosts=()
add_host() { # number: the daemon's side is 10.77.N.1, the host's 10.77.N.2
  unshare -n sleep 1000 &
  local pid=$! n=$1
  children+=("$pid")
  hosts[n]=$pid
  other() { [ "$(readlink "/proc/$1/ns/net")" != "$(readlink /proc/self/ns/net)" ]; }
  eventually 5 other "$pid" || bad "no namespace for host $n"
  ip link add "host$n" type veth peer name eth0 netns "$pid" || bad "veth of host $n"
  ip addr add "10.77.$n.1/24" dev "host$n" && ip link set "host$n" up || bad "address of host $n"
  nsenter -t "$pid" -n ip addr add "10.77.$n.2/24" dev eth0 && nsenter -t "$pid" -n ip link set eth0 up || bad "eth0 of host $n"
}
worker() { # host, key, name
  nsenter -t "${hosts[$1]}" -n "$BIN/gktune-worker" --connect "tcp://10.77.$1.1:$port" --key "$2.key" --device mock --compile-processes 1 \
    --spool "$TMP/spool.$3" >"$3.out" 2>"$3.log" &
  children+=("$!")
}
for n in 1 2 3; do add_host $n; done
"$BIN/gktune" keys new farm --roles work --pool --out farm.key >/dev/null || bad "keys new farm"
"$BIN/gktune" keys new one --roles work --out one.key >/dev/null || bad "keys new one"
"$BIN/gktune" keys new second --roles work --pool --hosts 10.77.2.0/24,10.99.0.1 --out second.key >/dev/null || bad "keys new second"
http=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$BIN/gktuned" --listen 'tcp://0.0.0.0:*' --http "127.0.0.1:$http" >daemon.out 2>daemon.log &
daemon=$!
children+=("$daemon")
eventually 20 grep -q '^ready' daemon.out || bad "gktuned did not start: $(cat daemon.log)"
port=$(grep -o 'endpoint=tcp://[0-9.:]*' daemon.log | sed 's/.*://')
metric() { python3 "$SRC/tests/support/http_get.py" "http://127.0.0.1:$http/metrics" | awk -v name="$1" '$1 == name { print $2 }'; }
recorded() { "$BIN/gktune" trials 1 --json 2>/dev/null | grep -o '"state":"recorded"' | wc -l; }
some() { [ "$(recorded)" -ge "$1" ]; }
logged() { [ "$(grep -c "$1" daemon.log)" -ge "$2" ]; }

# ---- a partition
worker 1 farm first
worker 2 farm second
worker 3 one third
for name in first second third; do
  eventually 20 grep -q ready "$name.out" || bad "$name was not welcome: $(cat "$name.log")"
done
printf '{"op":"gemm","shapes":[{"M":[16,32,48,64],"N":[32,64,96,128],"K":[32,64]}]}' >shapes.json
"$BIN/gktune" submit gemm --shapes shapes.json --arch mock-sm_80 --budget 40 >/dev/null 2>out || bad "submit: $(cat out)"
eventually 30 some 20 || bad "no trial was recorded"
ip link set host1 down
start=$(date +%s%N)
eventually 20 logged 'event=worker_lost .*no word' 1 || bad "a worker that cannot be heard was not missed: $(tail -n 3 daemon.log)"
noticed_ms=$((($(date +%s%N) - start) / 1000000))
[ "$noticed_ms" -lt 9000 ] || bad "it took $noticed_ms ms to miss it; 8000 are promised"
ip link set host1 up
eventually 30 logged 'event=worker_came' 4 || bad "the worker did not come back: $(cat first.log)"
timeout 120 "$BIN/gktune" watch 1 >out 2>&1 || bad "the job did not end well: $(tail -n 3 out)"
total=$((32 * 40))
[ "$(recorded)" = $total ] || bad "$(recorded) of $total trials were recorded"
page_is_new() { [ "$(metric 'gktune_jobs_ended_total{state="done"}')" = 1 ]; } # the page is made anew once a second
eventually 5 page_is_new || bad "the metrics do not know that the job ended"
granted=$(metric gktune_leases_granted_total)
# A lease that was on its way when the link went down never arrived; it is given again, and it did not run.
never=$(grep -c 'event=lease_lost .*came back without it' daemon.log)
lost=$(grep -c 'event=lease_lost' daemon.log)
[ "$never" = "$lost" ] || bad "$lost leases were lost, $never of them before they arrived: $(grep 'event=lease_lost' daemon.log | tail -n 3)"
[ "$granted" = $((total + 32 + never)) ] || bad "$granted leases for $total trials and 32 final rounds, $never never arrived: something ran twice"
[ "$(metric gktune_results_stale_total)" = 0 ] || bad "a result came too late: something ran twice"
[ "$(metric gktune_results_conflict_total)" = 0 ] || bad "a result came twice with other content"
"$BIN/gktune" db check >out 2>&1 || bad "the store is damaged: $(cat out)"

# ---- a single key is one host's
worker 2 one thief
eventually 20 grep -q "is in use on host" thief.log || bad "a single key was used from two hosts: $(cat thief.log)"
[ ! -s thief.out ] || bad "the second host was welcome"
for pid in "${children[@]}"; do
  grep -q "spool.third" "/proc/$pid/cmdline" 2>/dev/null && kill -9 "$pid"
done
eventually 40 grep -q ready thief.out || bad "the key stays lost after its host is gone: $(cat thief.log)"

# ---- a key of some addresses
worker 1 second outside
eventually 20 grep -q "refuses this key" outside.log || bad "a key was used from an address that it is not for: $(cat outside.log)"
logged 'event=auth_refused .*10.77.1.2: key second may be used from' 1 || eventually 5 logged 'key second may be used from' 1 || bad "the refusal is not in the log"
worker 2 second inside
eventually 20 grep -q ready inside.out || bad "a key was refused at its own address: $(cat inside.log)"
finish "3 hosts, a partition noticed in $noticed_ms ms, $granted leases for $total trials and 32 final rounds, $never of them lost on their way"
