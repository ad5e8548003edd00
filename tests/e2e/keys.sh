#!/usr/bin/env bash
# Daemon, workers and commands over tcp with keys: who comes in, who may do what, and a key that is revoked while it works.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
keys() { "$BIN/gktune" keys "$@"; }
refused() { # exit status, words that the message has, command...
  local want=$1 words=$2 rc
  shift 2
  "$@" >"$TMP/out" 2>&1
  rc=$?
  [ "$rc" = "$want" ] || bad "$*: exit status $rc, not $want: $(cat "$TMP/out")"
  grep -q -- "$words" "$TMP/out" || bad "$*: '$words' is not in: $(cat "$TMP/out")"
  checks=$((checks + 1))
}
checks=0
cd "$TMP" || exit 1

# ---- files
keys new farm --roles work --pool --out farm.key >told 2>&1 || bad "keys new: $(cat told)"
[ "$(stat -c %a farm.key)" = 600 ] || bad "farm.key has mode $(stat -c %a farm.key)"
[ "$(stat -c %a "$GKTUNE_STATE/server.key")" = 600 ] || bad "server.key has mode $(stat -c %a "$GKTUNE_STATE/server.key")"
[ "$(stat -c %a "$GKTUNE_STATE/keys.json")" = 600 ] || bad "keys.json has mode $(stat -c %a "$GKTUNE_STATE/keys.json")"
for role in submit admin; do
  keys new "$role" --roles "$role" --out "$role.key" >>told 2>&1 || bad "keys new $role"
done
keys new one --roles work --out one.key >>told 2>&1 || bad "keys new one"
refused 2 "exists already" keys new farm2 --roles work --out farm.key
refused 2 "is admitted already" keys new farm --roles work --out again.key
[ ! -e again.key ] || bad "a key that was not admitted was left behind"
refused 2 "letters, digits" keys new ../farm --roles work
refused 2 "allowed are submit, work and admin" keys new x --roles root
refused 2 "is no address" keys new x --roles work --hosts somewhere
refused 2 "the reason is missing" keys revoke farm
refused 2 "there is no key named" keys revoke nobody --reason x
refused 2 "takes no argument" keys list more
# A pair that is made where it will be used: its secret never travels.
server=$(sed -n 's/^server //p' farm.key)
HOME=$TMP/elsewhere GKTUNE_STATE=$TMP/elsewhere keys new guest --roles submit --server "$server" --out guest.key >guest.told || bad "keys new --server"
grep -q "gktune keys add guest --roles submit --public '" guest.told || bad "what to do next is not said: $(cat guest.told)"
[ ! -e "$TMP/elsewhere/keys.json" ] || bad "keys new --server admitted its key on this host"

# ---- the daemon
listen='tcp://127.0.0.1:*'
"$BIN/gktuned" --listen "$listen" >daemon.out 2>daemon.log &
daemon=$!
children+=("$daemon")
eventually 20 grep -q '^ready' daemon.out || bad "gktuned did not start: $(cat daemon.log)"
tcp=$(grep -o 'endpoint=tcp://[0-9.:]*' daemon.log | cut -d= -f2)
cli() { local key=$1; shift; "$BIN/gktune" "$@" --connect "$tcp" --key "$key"; }

refused 2 "tcp needs a key" "$BIN/gktune" jobs --connect "$tcp"
refused 2 "tcp needs --key" "$BIN/gktune-worker" --connect "$tcp" --device mock --spool "$TMP/none"
refused 2 "up to 65535" "$BIN/gktune" jobs --connect tcp://127.0.0.1:99999 --key guest.key
refused 2 "refuses this key" cli guest.key jobs
eval "$(sed -n 's/^  gktune keys add/keys add/p' guest.told)" >>told 2>&1 || bad "keys add, as it was printed"
cli guest.key jobs >out 2>&1 || bad "an added key is not let in by the running daemon: $(cat out)"
cp submit.key open.key && chmod 644 open.key
refused 2 "0644" cli open.key jobs
sed "s/^server .*/server $(sed -n 's/^public //p' one.key | sed 's/[&/\]/\\&/g')/" submit.key >fooled.key
chmod 600 fooled.key
refused 3 "another key than the key file's" cli fooled.key jobs
sed "s/^public .*/$(sed -n '/^public /p' one.key | sed 's/[&/\]/\\&/g')/" submit.key >halves.key
chmod 600 halves.key
refused 2 "not of one pair" cli halves.key jobs

# ---- who may do what
printf '{"op":"gemm","shapes":[{"M":[16,32,48,64],"N":[32,64],"K":32}]}' >shapes.json
refused 2 "lacks the role" cli farm.key submit gemm --shapes shapes.json --arch mock-sm_80 --budget 2
refused 2 "lacks the role admin" cli submit.key db check
refused 2 "lacks the role admin" cli submit.key keys list
cli admin.key db check >out 2>&1 || bad "an admin key may not check the store: $(cat out)"
cli admin.key keys list >out 2>&1 || bad "an admin key may not list keys: $(cat out)"
cli submit.key submit gemm --shapes shapes.json --arch mock-sm_80 --budget 40 >out 2>&1 || bad "submit over tcp: $(cat out)"
refused 2 "belongs to key submit" cli guest.key cancel 1

# ---- workers, one of which loses its key while it works
worker() { # key, spool
  "$BIN/gktune-worker" --connect "$tcp" --key "$1" --device mock --spool "$TMP/$2" >"$2.out" 2>"$2.log" &
  children+=("$!")
}
worker guest.key wrong
eventually 20 grep -q "lacks the role work" wrong.log || bad "a submit key became a worker: $(cat wrong.log)"
gone() { ! kill -0 "$1" 2>/dev/null; }
eventually 20 gone "${children[-1]}" || bad "a worker with the wrong key goes on asking"
worker farm.key first
first=${children[-1]}
eventually 20 grep -q ready first.out || bad "the first worker was not welcome: $(cat first.log)"
# Who has a secret in memory leaves no dump of it, and nobody has one in its arguments or environment.
for pid in "$daemon" "$first"; do
  grep -qE '^Max core file size +0 +0 ' "/proc/$pid/limits" || bad "process $pid may dump its memory: $(grep core "/proc/$pid/limits")"
  for key in farm.key "$GKTUNE_STATE/server.key"; do
    secret=$(sed -n 's/^secret *//p' "$key")
    [ "${#secret}" = 40 ] || bad "no secret in $key"
    grep -qF -- "$secret" "/proc/$pid/cmdline" "/proc/$pid/environ" && bad "process $pid was told a secret"
  done
done
recorded() { "$BIN/gktune" trials 1 --json 2>/dev/null | grep -o '"state":"recorded"' | wc -l; }
some() { [ "$(recorded)" -ge "$1" ]; }
eventually 30 some 5 || bad "no trial was recorded"
start=$(date +%s%N)
keys revoke farm --reason "a disk was lost" >>told 2>&1 || bad "keys revoke"
eventually 20 gone "$first" || bad "the worker of a revoked key goes on"
took_ms=$((($(date +%s%N) - start) / 1000000))
[ "$took_ms" -lt 4000 ] || bad "it took $took_ms ms; a heartbeat is 2000"
grep -q "farm was revoked: a disk was lost" first.log || bad "the worker was not told why: $(cat first.log)"
seen=$(recorded)
worker farm.key again
again=${children[-1]}
worker one.key second
eventually 20 grep -q ready second.out || bad "the second worker was not welcome: $(cat second.log)"
refused 0 "" timeout 60 "$BIN/gktune" watch 1
some $((8 * 40)) || bad "$(recorded) of 320 trials were recorded, $seen before the revocation"
grep -q "refuses this key" again.log || bad "a revoked key was not refused: $(cat again.log)"
kill "$again"
wait "$again" || bad "a refused worker did not end in order"
"$BIN/gktune" db check >out 2>&1 || bad "the store is damaged: $(cat out)"

# ---- the same by signal, of a list that was changed by hand
python3 - "$GKTUNE_STATE/keys.json" <<'PY'
import json, sys
keys = json.load(open(sys.argv[1]))
for key in keys["keys"]:
    if key["name"] == "one":
        key.update(revoked_ms=1, reason="by hand")
open(sys.argv[1], "w").write(json.dumps(keys))
PY
kill -HUP "$daemon"
eventually 10 grep -q "one was revoked: by hand" second.log || bad "SIGHUP read no keys: $(tail -n 3 daemon.log)"
echo broken >"$GKTUNE_STATE/keys.json"
kill -HUP "$daemon"
eventually 10 grep -q 'event=config_refused' daemon.log || bad "a broken list was not told"
cli submit.key jobs >out 2>&1 || bad "a broken list locked everybody out: $(cat out)"

# ---- what is told, and what is not
grep -q 'event=auth_refused .*key farm was revoked' daemon.log || bad "refusals are not in the log"
kill "$daemon"
wait "$daemon"
rc=$?
[ "$rc" = 0 ] || bad "gktuned ended with $rc"
for key in farm one submit admin guest; do
  secret=$(sed -n 's/^secret //p' "$key.key")
  found=$(grep -rlF -- "$secret" "$TMP" 2>/dev/null | grep -v '\.key$')
  [ -z "$found" ] || bad "the secret of $key is in $found"
done
secret=$(sed -n 's/^secret //p' "$GKTUNE_STATE/server.key")
found=$(grep -rlF -- "$secret" "$TMP" 2>/dev/null | grep -v '/server\.key$')
[ -z "$found" ] || bad "the daemon's secret is in $found"
finish "$checks refusals, a key revoked in $took_ms ms"
