#!/usr/bin/env bash
# deploy/kubernetes: the manifests are what they must be, and agree with the programs: options, probes, ports, deadlines, secrets.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
python3 -c 'import yaml' 2>/dev/null || { echo "SKIPPED: python3-yaml is not installed"; exit 77; }
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
: >"$TMP/daemon.out"
"$BIN/gktuned" --state "$GKTUNE_STATE" --http "127.0.0.1:$port" >>"$TMP/daemon.out" 2>"$TMP/daemon.err" &
children+=("$!")
eventually 20 grep -q ready "$TMP/daemon.out" || bad "no daemon: $(cat "$TMP/daemon.err")"
for program in gktuned gktune-worker; do "$BIN/$program" --help >"$TMP/$program.help" 2>&1 || bad "$program --help"; done
python3 - "$SRC" "$TMP" "$port" <<'PY' || bad "the manifests"
import glob, re, sys, urllib.error, urllib.request
import yaml

src, tmp, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
wrong = []
def need(holds, what):
    if not holds:
        wrong.append(what)

docs = {}
for path in sorted(glob.glob(f"{src}/deploy/kubernetes/*.yaml")):
    for doc in yaml.safe_load_all(open(path)):
        where = f"{path.rsplit('/', 1)[1]}: {doc.get('kind')} {doc.get('metadata', {}).get('name')}"
        need(doc.get("apiVersion") and doc.get("kind") and doc.get("metadata", {}).get("name"), where + ": is no object of Kubernetes")
        key = (doc["kind"], doc["metadata"]["name"])
        need(key not in docs, where + ": stands twice")
        docs[key] = doc
        need(doc["kind"] == "Namespace" or doc["metadata"].get("namespace") == "gktune", where + ": in another namespace")
for key in [("Namespace", "gktune"), ("StatefulSet", "gktuned"), ("Service", "gktuned"), ("DaemonSet", "gktune-worker"), ("Job", "gktune-workers"), ("Secret", "gktune-worker-key")]:
    need(key in docs, f"{key} is missing")

internal = open(f"{src}/daemon/core_internal.h").read()
run_s = int(re.search(r"#define RUN_S\s+(\d+)", internal).group(1))
def seconds(text):
    return int(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1]]

def answer(path):
    try:
        return urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5).status
    except urllib.error.HTTPError as e:
        return e.code

for (kind, name), doc in docs.items():
    pod = doc.get("spec", {}).get("template", {}).get("spec") if kind in ("StatefulSet", "DaemonSet", "Job") else None
    if not pod:
        continue
    where = f"{kind} {name}"
    labels = doc["spec"]["template"]["metadata"]["labels"]
    if kind != "Job":
        need(doc["spec"]["selector"]["matchLabels"].items() <= labels.items(), where + ": selects other pods than its own")
    need(pod.get("securityContext", {}).get("runAsNonRoot") is True, where + ": may run as root")
    need(pod.get("automountServiceAccountToken") is False, where + ": has a token of the cluster that it never needs")
    volumes = {v["name"]: v for v in pod.get("volumes", [])}
    volumes.update({c["metadata"]["name"]: c for c in doc["spec"].get("volumeClaimTemplates", [])})
    need(not any("hostPath" in v for v in volumes.values()), where + ": a hostPath is refused by the namespace's own standard")
    for c in pod["containers"]:
        program = c["command"][0].rsplit("/", 1)[1]
        known = set(re.findall(r"--[a-z][a-z-]+", open(f"{tmp}/{program}.help").read()))
        words = [w for w in c["command"] + c.get("args", []) if w.startswith("--")]
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            words += [w for w in c.get(probe, {}).get("exec", {}).get("command", []) if w.startswith("--")]
        for word in words:
            need(word in known, f"{where}: {program} has no option {word}")
        sc = c.get("securityContext", {})
        need(sc.get("allowPrivilegeEscalation") is False and sc.get("readOnlyRootFilesystem") is True and sc.get("capabilities", {}).get("drop") == ["ALL"], where + ": the container may do more than it must")
        ports = {p["name"]: p["containerPort"] for p in c.get("ports", [])}
        mounts = {m["mountPath"]: m for m in c.get("volumeMounts", [])}
        for mount in mounts.values():
            need(mount["name"] in volumes, f"{where}: no volume {mount['name']}")
        for volume in volumes.values():
            secret = volume.get("secret", {}).get("secretName")
            need(not secret or ("Secret", secret) in docs, f"{where}: no Secret {secret}")
        args = dict(zip(c.get("args", []), c.get("args", [])[1:]))
        def mounted(path):
            return any(path == m or path.startswith(m + "/") for m in mounts)
        for option in ("--state", "--spool", "--key", "--server-key"):
            need(option not in args or mounted(args[option]), f"{where}: {option} {args.get(option)} lies on no volume")
        if program == "gktune-worker":
            need(int(c["resources"]["limits"].get("nvidia.com/gpu", 0)) >= 1, where + ": a worker without a GPU")
            grace = pod.get("terminationGracePeriodSeconds", 30)
            need(grace >= run_s, f"{where}: killed after {grace} s; a trial may take {run_s} s")
            need(run_s <= seconds(args["--drain-limit"]) < grace, f"{where}: --drain-limit must lie between a trial's {run_s} s and the grace of {grace} s")
            service = docs[("Service", "gktuned")]
            need(args["--connect"] == f"tcp://gktuned.gktune.svc:{next(p['port'] for p in service['spec']['ports'] if p['name'] == 'zmq')}", where + ": connects elsewhere than to the service")
            secret = docs[("Secret", "gktune-worker-key")]
            for option in ("--key",):
                need(args[option].rsplit("/", 1)[1] in secret["stringData"], f"{where}: the Secret has no {args[option]}")
        else:
            need(doc["spec"]["replicas"] == 1, where + ": a store has one writer")
            need(any("volumeClaimTemplates" in doc["spec"] and c2["spec"]["accessModes"] in (["ReadWriteOncePod"], ["ReadWriteOnce"]) for c2 in doc["spec"]["volumeClaimTemplates"]), where + ": a claim of one writer")
            paths = {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
            for probe, path in paths.items():
                get = c.get(probe, {}).get("httpGet", {})
                need(get.get("path") == path and get.get("port") in ports, f"{where}: {probe} does not look at {path} of a port of its own")
                need(answer(get.get("path", "")) == 200, f"{where}: gktuned answers {answer(get.get('path', ''))} at {get.get('path')}")
            need(answer("/nothing-like-that") == 404, "gktuned answers at any path: the probes prove nothing")
            config = docs[("ConfigMap", "gktuned")]["data"]
            need(config["listen"].endswith(f":{ports['zmq']}") and config["http"].endswith(f":{ports['http']}"), where + ": listens elsewhere than its ports say")
            service = docs[("Service", "gktuned")]["spec"]
            need(service["selector"].items() <= labels.items(), "the Service selects nothing")
            need({p["targetPort"] for p in service["ports"]} <= ports.keys(), "the Service names ports that there are not")
job = docs[("Job", "gktune-workers")]["spec"]
codes = {v: r["action"] for r in job["podFailurePolicy"]["rules"] for v in r.get("onExitCodes", {}).get("values", [])}
need(codes.get(75) == "Ignore" and codes.get(2) == "FailJob" and job["template"]["spec"]["restartPolicy"] == "Never", f"Job: exit statuses {codes}")
need("75" in open(f"{tmp}/gktune-worker.help").read(), "gktune-worker --help says nothing of exit status 75")

container = open(f"{src}/deploy/kubernetes/Containerfile").read()
setup = open(f"{src}/scripts/lib/setup.sh").read()
build = set(re.search(r"build_packages=\(([^)]*)\)", setup).group(1).split())
installed = set(re.findall(r"[a-z][a-z0-9.+-]+", container))
need(build - installed <= {"bubblewrap"} and "bubblewrap" in installed, f"Containerfile lacks {build - installed}")
need(re.search(r"^USER 10001", container, re.M), "Containerfile: runs as root")
print("\n".join(wrong))
sys.exit(1 if wrong else 0)
PY
finish "manifests"
