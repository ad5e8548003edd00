#!/usr/bin/env bash
# Fault 26: workers that all lose their daemon at once. Under CURVE each of them is back within ten seconds, no lease is
# dropped or given twice, no result is lost. A hundred of them; a thousand with GKTUNE_TEST_ALL=1. Mostly waiting.
. "$(dirname "$0")/common.sh"

workers=100
[ "${GKTUNE_TEST_ALL:-}" = 1 ] && workers=1000
"$BIN/bench_load" reconnect --workers $workers --json >"$TMP/report.json" 2>"$TMP/err" || bad "bench_load: $(cat "$TMP/err")"
python3 - "$TMP/report.json" $workers >"$TMP/why" 2>&1 <<'PY' || bad "$(cat "$TMP/why" "$TMP/report.json")"
import json, sys
report, workers = json.load(open(sys.argv[1])), int(sys.argv[2])
wanted = {"leases held at the kill": lambda n: n == workers, "all workers back": lambda s: 0 < s <= 10,
          "of them dropped by the daemon": lambda n: n == 0, "not acknowledged at the end": lambda n: n == 0,
          "stale, dropped": lambda n: n == 0, "trials leased while somebody held them": lambda n: n == 0,
          "trials in the store": lambda n: n == report["results sent"] >= workers}
wrong = [name for name, holds in wanted.items() if not holds(report[name])]
sys.exit(f"not as it should be: {', '.join(wrong)}: " if wrong else 0)
PY
finish "$workers workers at once"
