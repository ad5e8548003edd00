# Shared by scripts/quickstart and scripts/test: what must be installed, where CUDA is, one build.
# Sourced, not run. Needs $root (the repository) and bash.

# Debian packages by the thing each brings; the reasons stand in docs/DESIGN.md section 14.
build_packages=(gcc libc6-dev cmake ninja-build pkg-config libuv1-dev libzmq3-dev libjansson-dev
  libsodium-dev libmicrohttpd-dev libsqlite3-dev zlib1g-dev bubblewrap)
# scripts/bundle: sets the search path of executables and libraries.
bundle_packages=(patchelf binutils)
# slurm and munge: tests/e2e/slurm.sh runs a cluster of its own; python3-yaml reads deploy/kubernetes.
test_packages=(g++ libcmocka-dev python3 python3-jsonschema python3-yaml slurmctld slurmd slurm-client munge
  "${bundle_packages[@]}")

say() { printf '%s\n' "$*" >&2; }

missing_packages() { # package... -> those that dpkg does not show as installed
  local package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
      printf '%s\n' "$package"
  done
}

# A tool that came from elsewhere than Debian's package is as good: cmake, ninja, cc.
drop_present_tools() {
  local package
  while read -r package; do
    case "$package" in
      gcc) command -v cc >/dev/null && continue ;;
      g++) command -v c++ >/dev/null && continue ;;
      cmake) command -v cmake >/dev/null && continue ;;
      ninja-build) command -v ninja >/dev/null && continue ;;
      pkg-config) command -v pkg-config >/dev/null && continue ;;
      python3) command -v python3 >/dev/null && continue ;;
    esac
    printf '%s\n' "$package"
  done
}

install_packages() { # package...
  local missing
  missing=$(missing_packages "$@" | drop_present_tools | tr '\n' ' ')
  missing=${missing% }
  [ -z "$missing" ] && return 0
  if ! command -v apt-get >/dev/null; then
    say "These Debian packages are missing, and there is no apt-get here: $missing"
    exit 2
  fi
  if [ "$(id -u)" != 0 ]; then
    say "Some packages are missing. Install them as root, then run this again:"
    say "  sudo apt-get update && sudo apt-get install -y --no-install-recommends $missing"
    exit 2
  fi
  say "installing: $missing"
  # shellcheck disable=SC2086  # a list of words on purpose
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing; } >"$root/build/install.log" 2>&1 || {
    say "The installation failed; the end of build/install.log:"
    tail -n 15 "$root/build/install.log" >&2
    exit 2
  }
}

cuda_folders() { # every folder that may be a CUDA toolkit, the named one first
  [ -n "${CUDA_HOME:-}" ] && printf '%s\n' "$CUDA_HOME"
  printf '%s\n' /usr/local/cuda /opt/cuda /usr/lib/cuda /usr
  ls -d /usr/local/cuda-[0-9]* 2>/dev/null | sort -rV
}

need_cuda() {
  local folder header lib searched='' found_headers='' found_lib=''
  while read -r folder; do
    searched="$searched $folder"
    if [ -z "$found_headers" ]; then
      found_headers=$folder
      for header in cuda.h nvrtc.h cublasLt.h; do
        [ -e "$folder/include/$header" ] || found_headers=''
      done
    fi
    for lib in "$folder"/lib64/libnvrtc.so* "$folder"/targets/x86_64-linux/lib/libnvrtc.so* "$folder"/lib/x86_64-linux-gnu/libnvrtc.so*; do
      [ -e "$lib" ] && [ -z "$found_lib" ] && found_lib=$lib
    done
  done < <(cuda_folders)
  [ -n "${GKTUNE_NVRTC:-}" ] && [ -e "$GKTUNE_NVRTC" ] && found_lib=$GKTUNE_NVRTC
  if [ -z "$found_headers" ] || [ -z "$found_lib" ]; then
    [ -z "$found_headers" ] && say "CUDA headers not found: cuda.h, nvrtc.h and cublasLt.h are needed to build."
    [ -z "$found_lib" ] && say "The NVRTC library (libnvrtc.so) was not found: it compiles the kernels; no GPU is needed."
    say "Searched:$searched"
    say "Set CUDA_HOME to the folder of a CUDA toolkit (12.3 or newer)${CUDA_HOME:+; it is now '$CUDA_HOME'}."
    exit 2
  fi
  # A toolkit that was not named but found is named from here on, so that cmake takes the same one.
  [ -n "${CUDA_HOME:-}" ] || export CUDA_HOME=$found_headers
}

configure_and_build() { # build folder, cmake options...
  local folder=$1
  shift
  mkdir -p "$folder"
  if ! cmake -S "$root" -B "$folder" -G Ninja "$@" >"$folder/configure.log" 2>&1; then
    say "cmake failed; the end of $folder/configure.log:"
    tail -n 25 "$folder/configure.log" >&2
    exit 4
  fi
  if ! cmake --build "$folder" >"$folder/build.log" 2>&1; then
    say "the build failed; the errors of $folder/build.log:"
    grep -E 'error|FAILED|undefined' "$folder/build.log" | head -n 25 >&2
    exit 4
  fi
}
