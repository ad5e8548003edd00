#!/usr/bin/env bash
# A bundle, moved, runs where only it and glibc are visible: no environment, no installed library, no source tree.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
BUILD=${3:?build folder}
command -v patchelf >/dev/null || exit 77
if readelf -d "$BIN/gktune" | grep -qE 'lib(asan|ubsan|tsan)\.so'; then
  exit 77 # a sanitizer's runtime is no part of a bundle
fi
bwrap --unshare-all --ro-bind / / true 2>/dev/null || exit 77
"$SRC/scripts/bundle" "$TMP/made" --build "$BUILD" >"$TMP/out" 2>&1 || {
  bad "scripts/bundle: $(cat "$TMP/out")"
  finish "no bundle"
}
"$SRC/scripts/bundle" "$TMP/home" --build "$BUILD" >"$TMP/out" 2>&1 && bad "a folder that is no bundle was replaced"
# The check of glibc can say no: a bundle for an older one.
mkdir -p "$TMP/tree/scripts"
ln -s "$SRC/kernels" "$SRC/schemas" "$SRC/examples" "$SRC/LICENSE" "$TMP/tree"
cp -r "$SRC/scripts/lib" "$TMP/tree/scripts"
sed 's/^glibc_newest=[0-9.]*/glibc_newest=2.17/' "$SRC/scripts/bundle" >"$TMP/tree/scripts/bundle"
bash "$TMP/tree/scripts/bundle" "$TMP/old" --build "$BUILD" >"$TMP/out" 2>&1 && bad "a bundle for glibc 2.17 was made"
grep -q 'needs glibc 2\.[0-9]*; at most 2\.17 is allowed' "$TMP/out" || bad "the glibc that is needed is not named: $(cat "$TMP/out")"
[ ! -e "$TMP/old" ] && [ ! -e "$TMP/old.new" ] || bad "something was left of a bundle that failed"
# With what only a GPU can show: it reads a tree that is named, and says so where there is no GPU.
"$SRC/scripts/bundle" "$TMP/tests" --build "$BUILD" --tests >"$TMP/out" 2>&1 || bad "scripts/bundle --tests: $(cat "$TMP/out")"
mkdir "$TMP/no_source"
GKTUNE_SOURCE=$TMP/no_source "$TMP/tests/bin/gpu_twins" emu softmax >"$TMP/out" 2>&1 && bad "gpu_twins without its tree ended well"
grep -q "$TMP/no_source" "$TMP/out" || bad "gpu_twins does not name the tree that it looked in: $(cat "$TMP/out")"
GKTUNE_SOURCE=$SRC "$TMP/tests/bin/gpu_twins" emu "softmax adds in bf16" >"$TMP/out" 2>&1
case $? in
  0) grep -q '^1 rejected, 0 passed' "$TMP/out" || bad "gpu_twins: $(cat "$TMP/out")" ;;
  77) ;; # no NVRTC
  *) bad "gpu_twins: $(cat "$TMP/out")" ;;
esac
mkdir -p "$TMP/some where" # a blank in the path too
mv "$TMP/made" "$TMP/some where/else"

# glibc alone, file by file; NVRTC, where there is one, is the machine's and not the bundle's.
glibc=(--ro-bind /lib64/ld-linux-x86-64.so.2 /lib64/ld-linux-x86-64.so.2)
for name in c m dl pthread rt resolv; do
  for file in /lib/x86_64-linux-gnu/lib$name.so.[0-9]; do
    [ -e "$file" ] && glibc+=(--ro-bind "$file" "/lib/x86_64-linux-gnu/$(basename "$file")")
  done
done
inside() { # more for bwrap -- command in the bundle...
  local more=()
  while [ "$1" != -- ]; do
    more+=("$1")
    shift
  done
  shift
  timeout -k 5 200 bwrap --unshare-all --die-with-parent --clearenv "${glibc[@]}" --ro-bind "$TMP/some where/else" "/opt/a b" \
    --proc /proc --dev /dev --tmpfs /tmp "${more[@]}" --chdir / -- "/opt/a b/bin/$1" "${@:2}" >"$TMP/out" 2>"$TMP/err"
}
inside -- gktune version || bad "version: $(cat "$TMP/out" "$TMP/err")"
cmp -s <("$BIN/gktune" version) "$TMP/out" || bad "version says '$(cat "$TMP/out")'"
inside -- gktune kernels gemm --state /tmp/s || bad "kernels: $(cat "$TMP/out" "$TMP/err")"
inside -- gktuned --help || bad "gktuned: $(cat "$TMP/out" "$TMP/err")"
inside -- gktune-worker --help || bad "gktune-worker: $(cat "$TMP/out" "$TMP/err")"
inside -- gktune doctor --state /tmp/s # its status says whether something is missing: here NVRTC is
grep -q '^missing *nvrtc' "$TMP/out" || bad "doctor found an NVRTC where none is visible: $(cat "$TMP/out" "$TMP/err")"
for line in gktuned gktune-worker sqlite kernels; do
  grep -qE "^ok +$line" "$TMP/out" || bad "doctor on $line: $(cat "$TMP/out" "$TMP/err")"
done
inside -- gktune run gemm --shapes "/opt/a b/share/gktune/examples/quickstart.json" --device mock --budget 3 --seed 1 --state /tmp/s --export /tmp/x ||
  bad "mock run: $(tail -n 20 "$TMP/out" "$TMP/err")"
grep -q 'exported header' "$TMP/out" || bad "mock run exported nothing: $(cat "$TMP/out" "$TMP/err")"

# Compilers in their sandbox find the bundle's libraries, where the machine has none of them: here one has a name of its own.
if "$BIN/gktune" doctor 2>/dev/null | grep -q '^ok *nvrtc'; then
  cp -r "$TMP/some where/else" "$TMP/only"
  cp "$TMP/only"/lib/libjansson.so.4 "$TMP/only/lib/libonlyhere.so.4"
  patchelf --replace-needed libjansson.so.4 libonlyhere.so.4 "$TMP/only/bin/gktune-worker"
  printf '{"op":"gemm","shapes":[{"M":16,"N":32,"K":32}]}' >"$TMP/shapes.json"
  timeout -k 5 200 "$TMP/only/bin/gktune" run gemm --shapes "$TMP/shapes.json" --device emu --budget 2 --seed 1 --state "$TMP/only/state" >"$TMP/out" 2>&1 ||
    bad "a run from a bundle with libraries of its own: $(tail -n 20 "$TMP/out")"
  ! grep 'without a sandbox' "$TMP/only/state/worker.log" || bad "a bundle's compilers find no library of it in their sandbox"
fi

runs=7
nvrtc=$("$BIN/gktune" doctor 2>/dev/null | sed -n 's/^ok *nvrtc *[0-9.]*, //p')
if [ -n "$nvrtc" ]; then
  folder=$(dirname "$(readlink -f "$nvrtc")")
  printf '{"op":"gemm","shapes":[{"M":16,"N":32,"K":32}]}' >"$TMP/shapes.json"
  inside --ro-bind "$folder" /usr/local/cuda/lib64 --ro-bind "$TMP/shapes.json" /shapes.json -- \
    gktune run gemm --shapes /shapes.json --device emu --budget 2 --seed 1 --state /tmp/s --export /tmp/x ||
    bad "emu run: $(tail -n 20 "$TMP/out" "$TMP/err")"
  runs=8
fi
finish "$runs runs from a bundle"
