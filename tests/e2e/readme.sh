#!/usr/bin/env bash
# Runs the commands of README.md that stand in ```sh blocks marked by a line "# tested", in a clean state folder, and
# demands that each ends with status 0 and that what the README promises is there.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$root"
for name in scripts/quickstart scripts/test; do
  grep -q "$name" README.md || { echo "README.md does not name $name"; exit 1; }
done

# The blocks, one command a line; a block is taken only if its first line is "# tested".
awk '/^```sh$/ {inside=1; first=1; take=0; next} /^```$/ {inside=0} inside && first {take=($0=="# tested"); first=0; next} inside && take' README.md >"$work/commands"
[ -s "$work/commands" ] || { echo "README.md has no tested commands"; exit 1; }
export PATH="$root/build/bin:$PATH" GKTUNE_STATE="$work/state" GKTUNE_QUICKSTART_BUDGET=${GKTUNE_QUICKSTART_BUDGET:-8}
count=0
while read -r line; do
  [ -n "$line" ] || continue
  case "$line" in scripts/test*) continue ;; esac # it is what runs this
  echo "+ $line"
  if ! bash -c "$line" </dev/null >"$work/out" 2>&1; then
    echo "README.md: '$line' failed:"
    tail -n 30 "$work/out"
    exit 1
  fi
  count=$((count + 1))
done <"$work/commands"
echo "readme: $count commands, each as promised"
