# Sourced by the end-to-end tests: $BIN is the folder of executables, $SRC the source tree, $TMP an own folder.
set -u
BIN=${1:?folder of executables}
SRC=${2:?source tree}
TMP=$(mktemp -d /tmp/gk-e2e-XXXXXX)
export HOME=$TMP/home XDG_STATE_HOME= GKTUNE_STATE=$TMP/state GKTUNE_CONNECT= NO_COLOR=1
mkdir -p "$HOME"
mkfifo "$TMP/idle"
exec {idle}<>"$TMP/idle" # nobody writes to it: a wait of a given length
children=()
cleanup() {
  local pid
  for pid in "${children[@]:-}"; do
    [ -n "$pid" ] && kill -9 "$pid" 2>/dev/null
  done
  chmod -R u+rwx "$TMP" 2>/dev/null
  rm -rf "$TMP"
}
trap cleanup EXIT
failures=0
bad() {
  printf 'FAILED: %s\n' "$*" >&2
  failures=$((failures + 1))
}
finish() { # what was counted
  printf '%s, %d failed\n' "$1" "$failures"
  [ "$failures" = 0 ]
  exit $?
}
# Waits up to $1 seconds until the command holds; looks 20 times a second.
eventually() {
  local seconds=$1 i
  shift
  for ((i = 0; i < seconds * 20; i++)); do
    "$@" && return 0
    read -r -t 0.05 -u "$idle" || true
  done
  return 1
}
# pid of a child of a process by its program name, from /proc: no broad search by name
child_of() { # parent pid, name
  local stat pid comm ppid
  for stat in /proc/[0-9]*/stat; do
    read -r pid comm _ ppid _ 2>/dev/null <"$stat" || continue
    if [ "$ppid" = "$1" ] && [ "$comm" = "(${2:0:15})" ]; then
      printf '%s\n' "$pid"
      return 0
    fi
  done
  return 1
}
