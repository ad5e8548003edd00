/* The table of commands. Order is that of the overview: the way a user meets them. */
#include "cli/command.h"

#include <string.h>

#define JSON_OPTION                                                                                \
    {                                                                                              \
        "json", NULL, "print JSON (schemas/cli.schema.json)", false                                \
    }
#define END_OPTION                                                                                 \
    {                                                                                              \
        NULL, NULL, NULL, false                                                                    \
    }

const struct gk_option gk_common_options[] = {
    {"state", "DIR",
     "state folder ($GKTUNE_STATE; else $XDG_STATE_HOME/gktune, ~/.local/state/gktune)", false},
    {"connect", "ENDPOINT", "daemon to talk to, as ipc:///path ($GKTUNE_CONNECT)", false},
    {"key", "FILE", "key file for a daemon behind tcp ($GKTUNE_KEY)", false},
    {"kernels", "DIR", "folder of ops and templates instead of the installed one", false},
    END_OPTION};

#define POLICY_OPTION                                                                              \
    {                                                                                              \
        "policy", "POLICY", "how to time: cold-graph (default), cold-graph-pdl, warm, eager",      \
            false                                                                                  \
    }

#define SPREAD_OPTION                                                                              \
    {                                                                                              \
        "spread", NULL,                                                                            \
            "measure each winner on every GPU of its kind too (gktune workers --spread shows it)", \
            false                                                                                  \
    }

static const struct gk_option run_options[] = {
    {"shapes", "FILE", "problems: JSON or CSV", false},
    {"device", "DEV", "cuda:N, emu, emu:sm_90a, mock; more than once (default: every CUDA device)",
     true},
    {"budget", "BUDGET", "a problem: number of trials (default 200), or 30s, 10m, 2h", false},
    {"strategy", "NAME", "how to search", false},
    POLICY_OPTION,
    {"seed", "N", "seed of search, inputs and orders (default 1)", false},
    {"from", "DIR", "an earlier export: its rows are the incumbents", false},
    {"export", "DIR", "write the header, evidence and sources there at the end", false},
    {"fresh", NULL,
     "begin anew, not where the same command stopped, and hold final rounds that the store knows",
     false},
    {"check", NULL,
     "run a GPU's finalists on the emulated device too, on a small problem: it sees races that "
     "come "
     "out right (seconds each)",
     false},
    SPREAD_OPTION,
    JSON_OPTION,
    END_OPTION};

static const struct gk_option doctor_options[] = {
    {"free-ballast", NULL, "remove the file kept for a full disk, and do nothing else", false},
    {"bundle", "FILE", "write what belongs to a report of a fault, as one JSON file without keys",
     false},
    {"log", "FILE", "with --bundle: the end of this log goes in (may be repeated)", true},
    {"config", "FILE", "with --bundle: gktuned's; default /etc/gktune/gktuned.json", false},
    {"http", "ADDR:PORT", "with --bundle: where gktuned's metrics are; default: its config's",
     false},
    JSON_OPTION,
    END_OPTION};

static const struct gk_option submit_options[] = {
    {"shapes", "FILE", "problems: JSON or CSV", false},
    {"suite", "FILE", "what a night tunes: several sets of an op and a shapes file, stored at once",
     false},
    {"slot", "NAME", "of a suite: of one slot a single night runs at a time (default: the file's)",
     false},
    {"arch", "ARCH|all",
     "arch to tune for, as emu-sm_80; all: every one that a worker reported in 30 days", true},
    {"budget", "BUDGET", "a problem: number of trials (default 200), or 30s, 10m, 2h", false},
    {"strategy", "NAME", "how to search", false},
    POLICY_OPTION,
    {"seed", "N", "seed of search, inputs and orders (default 1)", false},
    {"priority", "N", "higher goes first, -100 to 100 (default 0)", false},
    {"wait", NULL, "stay until the job ends", false},
    {"if-changed", NULL,
     "leave out problems whose templates, compiler, driver and clocks are as when they were picked",
     false},
    {"until", "TIME", "stop asking at 06:30, or in 90s, 45m, 8h; then judge what is there", false},
    {"fresh", NULL,
     "a new job, also if the same one is unfinished, and final rounds that the store knows", false},
    SPREAD_OPTION,
    JSON_OPTION,
    END_OPTION};

static const struct gk_option json_only[] = {JSON_OPTION, END_OPTION};
#define REASON_OPTION                                                                              \
    {                                                                                              \
        "reason", "TEXT", "why: kept in the store and in the audit trail", false                   \
    }
static const struct gk_option control_options[] = {REASON_OPTION, JSON_OPTION, END_OPTION};
static const struct gk_option drain_options[] = {
    {"off", NULL, "take work again", false},
    {"wait", NULL, "stay until nothing is out any more", false},
    REASON_OPTION,
    JSON_OPTION,
    END_OPTION};
static const struct gk_option dead_options[] = {
    {"all", NULL, "list: settled letters too; retry, forget: every open one", false},
    REASON_OPTION,
    JSON_OPTION,
    END_OPTION};
static const struct gk_option audit_options[] = {
    {"verify", NULL, "walk the chain of hashes instead; exits 2 when it is broken", false},
    JSON_OPTION,
    END_OPTION};
static const struct gk_option jobs_options[] = {
    {"all", NULL, "ended jobs too", false}, JSON_OPTION, END_OPTION};
static const struct gk_option watch_options[] = {
    {"after", "EVENT", "only events after this number", false}, JSON_OPTION, END_OPTION};
static const struct gk_option best_options[] = {{"arch", "ARCH", "only this arch", false},
                                                {"gpu", "GPU", "only this gpu", false},
                                                JSON_OPTION,
                                                END_OPTION};
static const struct gk_option trials_options[] = {
    {"failed", NULL, "only those that failed", false}, JSON_OPTION, END_OPTION};
static const struct gk_option export_options[] = {
    {"arch", "ARCH|all", "as emu-sm_80, sm_90a", false},
    {"job", "JOB", "also jobs.json: what became of each of its problems, for gktune diff", true},
    {"gpu", "GPU|all", "rows of this gpu (default: all)", false},
    {"policy", "POLICY", "rows timed in this way (default cold-graph)", false},
    {"format", "FORMAT", "header, json, t4 (default: header)", false},
    {"out", "DIR", "folder to write", false},
    JSON_OPTION,
    END_OPTION};
static const struct gk_option diff_options[] = {
    {"format", "FORMAT", "table, md, json (default: table)", false}, JSON_OPTION, END_OPTION};
static const struct gk_option space_options[] = {
    {"shape", "F=V,..", "the problem, as M=16,N=4096,K=4096,dtype=bf16", false},
    {"arch", "ARCH", "whose limits hold: emu-sm_80 (default), emu-sm_90a, ..", false},
    {"count", NULL, "how many legal configs, and what cuts the rest (the default)", false},
    {"list", NULL, "every legal config", false},
    {"why", "CONFIG", "which constraint refuses this config; the derived values of a legal one",
     false},
    JSON_OPTION,
    END_OPTION};
static const struct gk_option replay_options[] = {
    {"strategy", "S,..", "strategies to run (default: all but exhaustive)", false},
    {"space", "FILE", "a recorded space, as if it stood among the operands", true},
    {"seeds", "N", "runs of each strategy on each space (default 100)", false},
    {"seed", "N", "seed of the first run; the others follow (default 1)", false},
    {"budget", "BUDGET",
     "what a strategy is told it has: evaluations (default 400), or simulated 30s, 10m, 2h", false},
    {"evals", "N", "evaluations, the same as --budget N", false},
    {"credit", "N", "configs asked for at once (default 1)", false},
    {"ahead", "N", "batches asked for while one is measured, as for a GPU (default 0)", false},
    {"samples", "N", "tell the median of so many recorded samples (default 0: the recorded time)",
     false},
    {"jobs", "N", "threads (default: one a processor)", false},
    {"warm", "FILE", "hints: the best configs of another recorded space; not of the space itself",
     true},
    {"svg", "FILE", "draw the curves", false},
    {"check", NULL, "run nothing: whether the files keep the rules of their format", false},
    {"no-score", NULL, "end runs at the budget and leave the score out", false},
    JSON_OPTION,
    END_OPTION};
static const struct gk_option emu_options[] = {
    {"shape", "F=V,..", "the problem, as M=64,N=64,K=64,dtype=f16", false},
    {"config", "P=V,..", "parameters, or all as TEMPLATE{..}; the others as the default has them",
     false},
    {"arch", "ARCH", "sm_80, sm_90a, .. (default: the least that a template is written for)",
     false},
    {"schedule", "WORD", "late, early, random, or all (the default): a trial each", false},
    {"seed", "N", "seed of the random schedule (default 1)", false},
    {"inputs", "N", "input set 0 to 3 (default 0)", false},
    {"top", "N", "lines of the table, dearest first (default 20; 0: all)", false},
    {"source", NULL, "the sources with counts beside each line, instead of the table", false},
    {"innermost", NULL, "count at the innermost line, also inside of <gk/..>", false},
    {"entry", "NAME", "of a .cu file: its kernel (default: the only one)", false},
    {"grid", "X,Y,Z", "of a .cu file", false},
    {"block", "X,Y,Z", "of a .cu file", false},
    {"cluster", "X", "of a .cu file (default 1)", false},
    {"smem", "BYTES", "of a .cu file: dynamic shared memory", false},
    {"arg", "SPEC", "of a .cu file, in order: f32[1024]=normal|uniform|iota|none|NUMBER, i32=5",
     true},
    {"option", "OPTION", "of a .cu file: of NVRTC, as -I/usr/local/cuda/include, -DTILE=64", true},
    JSON_OPTION,
    END_OPTION};
static const struct gk_option kernels_options[] = {
    {"arch", "ARCH", "for the number of configs (default emu-sm_80)", false},
    JSON_OPTION,
    END_OPTION};
static const struct gk_option workers_options[] = {
    {"spread", NULL, "how far the GPUs of a kind stand apart, config by config", false},
    {"op", "OP", "with --spread: of this op alone", false},
    REASON_OPTION,
    JSON_OPTION,
    END_OPTION};
static const struct gk_option keys_options[] = {
    {"roles", "R,..", "new, add: submit, work, admin", false},
    {"pool", NULL, "new, add: many hosts may use it at once (a worker's key)", false},
    {"hosts", "ADDR,..", "new, add: addresses and networks that may use it, as 10.1.0.0/16", false},
    {"out", "FILE", "new: the file of the secret key (default NAME.key)", false},
    {"server", "KEY", "new: public key of a daemon on another host; nothing is admitted here",
     false},
    {"public", "KEY", "add: the public key, as keys new on the other host has printed it", false},
    {"reason", "TEXT", "revoke: why; it stays in the list", false},
    JSON_OPTION,
    END_OPTION};
static const struct gk_option db_options[] = {
    {"no-samples", NULL, "backup: leave the raw samples out", false},
    {"days", "N", "prune: ended jobs older than this (default 90)", false},
    {"dry-run", NULL, "prune: only say what would go", false},
    REASON_OPTION,
    JSON_OPTION,
    END_OPTION};

static const struct gk_command commands[] = {
    {"run", gk_cmd_run, "tune problems here and now, to the end",
     "OP|FAMILY|FILE.kernel.json --shapes FILE [--device DEV].. [--budget N|30s|10m] [--strategy "
     "S] "
     "[--policy P] [--seed N] [--from DIR] [--export DIR] [--fresh] [--check] [--spread] [--json]",
     "Checks everything first, prints the total budget, then searches, verifies and judges every\n"
     "problem. Without --device every CUDA device is used; where there is none, the emulated "
     "device,\n"
     "whose times are modelled. Ctrl-C once stops asking and judges what is there; twice stops "
     "now.\n"
     "The same command goes on with an unfinished run, and restarts what died.",
     "  gktune run gemm --shapes shapes.json --device emu --budget 24 --export out\n"
     "  gktune run my.kernel.json --shapes shapes.json --budget 10m\n",
     run_options, 1, 1},
    {"submit", gk_cmd_submit, "store a job for the workers of a daemon",
     "OP|FAMILY|FILE.kernel.json --shapes FILE [--arch A|all] [--budget ..] [--strategy ..] "
     "[--policy P] [--priority N] | --suite FILE [--slot NAME]; both: [--wait] [--if-changed] "
     "[--until HH:MM|2h] [--spread] [--json]",
     "The job is stored when the command returns. Without a running daemon nothing works on it "
     "until\n"
     "gktuned starts, and the command says so. The sets of a suite are stored at once, or none of\n"
     "them; while a night of the same suite and slot runs, the next one is refused.",
     "  gktune submit gemm --shapes llama.json --arch all --budget 500\n"
     "  gktune submit gemm --shapes one.json --arch emu-sm_80 --wait\n"
     "  gktune submit --suite llama.suite.json --if-changed --until 06:30\n",
     submit_options, 0, 1},
    {"jobs", gk_cmd_jobs, "list jobs", "[--all] [--json]", "Open jobs; with --all ended ones too.",
     "  gktune jobs --all\n", jobs_options, 0, 0},
    {"show", gk_cmd_show, "one job, problem by problem", "JOB [--json]",
     "State, counts and the pick of every problem of the job.", "  gktune show 3\n", json_only, 1,
     1},
    {"watch", gk_cmd_watch, "follow a job to its end", "JOB [--after EVENT] [--json]",
     "Prints events as they come; exits 0 when the job is done with a pick for every problem.",
     "  gktune watch 3\n  gktune watch 3 --json | jq .kind\n", watch_options, 1, 1},
    {"cancel", gk_cmd_control, "end jobs without judging them", "JOB.. [--reason TEXT] [--json]",
     "What was recorded stays in the store. All of the jobs are ended or none; one that is ended\n"
     "already stays so.",
     "  gktune cancel 3 --reason 'wrong shapes'\n  gktune cancel 3 4 5\n", control_options, 1,
     GK_OPERANDS_MAX},
    {"pause", gk_cmd_control, "stop giving trials of jobs to workers",
     "JOB.. [--reason TEXT] [--json]", "Trials that run go on to their end.", "  gktune pause 3\n",
     control_options, 1, GK_OPERANDS_MAX},
    {"resume", gk_cmd_control, "go on with paused jobs", "JOB.. [--reason TEXT] [--json]",
     "Undoes pause.", "  gktune resume 3\n", control_options, 1, GK_OPERANDS_MAX},
    {"retry", gk_cmd_control, "try jobs' parked trials and failed problems again",
     "JOB.. [--reason TEXT] [--json]",
     "For open and failed jobs whose trials were lost to the infrastructure; one letter alone:\n"
     "gktune dead retry.",
     "  gktune retry 3\n", control_options, 1, GK_OPERANDS_MAX},
    {"dead", gk_cmd_dead, "what is not tried again unless somebody says so",
     "[list [--all] | show LETTER | retry LETTER|--all | forget LETTER|--all] [--reason TEXT] "
     "[--json]",
     "A trial that was lost three times is parked; a config that killed two executors on an arch "
     "is\n"
     "quarantined there. retry gives a trial its attempts back, and lets a config off what it "
     "did;\n"
     "forget leaves all as it is and takes the letter off the list. Kept 90 days (gktune db "
     "prune).",
     "  gktune dead\n  gktune dead retry 7 --reason 'new power supply'\n", dead_options, 0, 2},
    {"best", gk_cmd_best, "what the store would export", "[OP] [--arch A] [--gpu G] [--json]",
     "A row for each problem, arch, gpu and policy: the pick, its time, how much faster than the\n"
     "default it is, how many configs are tied with it, and its age.",
     "  gktune best gemm --arch emu-sm_80\n", best_options, 0, 1},
    {"trials", gk_cmd_trials, "every trial of a job, and why it failed", "JOB [--failed] [--json]",
     "In the order they were asked for.", "  gktune trials 3 --failed\n", trials_options, 1, 1},
    {"export", gk_cmd_export, "write the winners as a header or JSON, trials as T4",
     "[OP].. --arch A|all [--gpu G|all] [--job JOB].. --format header|json|t4 --out DIR",
     "The header compiles alone as C11 and C++17. Beside it: the evidence, the template sources "
     "that\n"
     "rows use, and checksums. The same picks give the same bytes. t4 writes every trial instead, "
     "a file\n"
     "for each problem, device and template, as gktune replay and other tuners read them.",
     "  gktune export gemm --arch emu-sm_80 --format header --out out\n"
     "  gktune export gemm --arch sm_90a --format t4 --out trials\n",
     export_options, 0, GK_OPERANDS_MAX},
    {"diff", gk_cmd_diff, "what got faster, slower or wrong between two exports or stores",
     "A B [--format table|md|json] [--json]",
     "A and B are folders or evidence files of exports, state folders, or backups; '-' has no "
     "rows.\n"
     "A row is a problem on an arch and gpu. Times are the same while the intervals of both "
     "rounds\n"
     "touch (column limit); a config that took part in B's round as the incumbent is judged "
     "there.\n"
     "Another compiler, driver, template or regime is said. NOT-RUN has its reason: no worker, out "
     "of\n"
     "time, fenced, stopped, lost, cancelled, not finished. Exits 1 when something is slower or "
     "wrong.",
     "  gktune diff nights/2025-06-16/export nights/2025-06-17/export\n"
     "  gktune diff before.db ~/.local/state/gktune --format md\n",
     diff_options, 2, 2},
    {"space", gk_cmd_space, "the legal configs of one problem",
     "OP|FILE --shape k=v,.. [--arch A] [--count|--list|--why CONFIG] [--json]",
     "Needs no device and no daemon.",
     "  gktune space gemm --shape M=4096,N=4096,K=4096\n"
     "  gktune space gemm --shape M=16,N=64,K=64 --list | head -n 1\n",
     space_options, 1, 1},
    {"replay", gk_cmd_replay, "judge strategies on recorded spaces",
     "FILE.. [--strategy S,..] [--seeds N] [--budget N] [--credit N] [--json]",
     "Reads caches of Kernel Tuner and T4 results, plain or gzip, takes what is whole and says "
     "what "
     "it\n"
     "dropped. Every strategy searches every space with every seed; configs cost what they cost "
     "when\n"
     "they were recorded. Prints the fraction of the best recorded time after so many evaluations "
     "and\n"
     "after the simulated seconds that those cost on average, and a score: 0 is what random search "
     "is\n"
     "expected to reach, 1 the best, averaged until random search has gone 95 % of the way from "
     "the\n"
     "median to the best. The same command prints the same, whatever --jobs says.",
     "  gktune replay convolution_A100.kt.json.gz --strategy random,local --seeds 25\n"
     "  gktune replay *.kt.json.gz --credit 32 --json\n",
     replay_options, 0, GK_OPERANDS_MAX},
    {"emu", gk_cmd_emu, "run one config on the emulated device, line by line",
     "OP|FAMILY|FILE.kernel.json --shape k=v,.. [--config P=V,..] [--inputs N] | FILE.cu --grid X "
     "--block X [--arg SPEC].. [--entry NAME] [--smem N] [--arch A] [--schedule S] [--seed N] "
     "[--top N] [--source] [--innermost] [--json]",
     "Compiles the template as a worker does, verifies it against the reference under each "
     "schedule,\n"
     "and shows which source lines cost what: requests of global memory with their sectors, of "
     "shared\n"
     "memory with their wavefronts (in brackets: at best), tensor operations, waits, bytes of "
     "copies.\n"
     "A race, a deadlock, a stray access is shown with its source lines. Times are modelled.\n"
     "Counts are those of the last schedule that ran. Buffers have the alignment that was promised "
     "and\n"
     "no better (gemm: the field align), so rows that begin between sectors touch one more.\n"
     "Exits 1 when the kernel is not verified. A plain .cu file has no reference: it is run and "
     "looked\n"
     "at in the same way, and its buffers are shown; exits 1 when a launch fails.",
     "  gktune emu gemm --shape M=128,N=128,K=128\n"
     "  gktune emu my.kernel.json --shape M=256,N=256,K=256 --arch sm_90a --source\n"
     "  gktune emu gemm --shape M=64,N=64,K=64 --config BM=32,STAGES=3 --schedule random --seed "
     "7\n"
     "  gktune emu saxpy.cu --grid 4 --block 256 --arg i32=1024 --arg f32=2 "
     "--arg f32[1024]=normal --arg f32[1024]=iota\n",
     emu_options, 1, 1},
    {"kernels", gk_cmd_kernels, "ops, their fields, templates and parameters",
     "[OP|FAMILY|FILE.kernel.json] [--arch A] [--json]",
     "Without an operand a line an op; with one, everything a shapes file may say and every\n"
     "parameter that is searched.",
     "  gktune kernels\n  gktune kernels gemm\n", kernels_options, 0, 1},
    {"workers", gk_cmd_workers, "workers and their devices; drain one, fence a device",
     "[list | drain WORKER | resume WORKER | fence DEVICE | unfence DEVICE] [--reason TEXT] | "
     "--spread [--op OP]; all: [--json]",
     "Lists those that the store knows, with what they last reported. A worker that drains gets "
     "no\n"
     "new lease, until resume; its state says draining, and drained when nothing is out. A fenced\n"
     "device gets no lease, whoever runs it, until it is unfenced: DEVICE is its UUID, or\n"
     "WORKER/DEVICE where it has none. A fence that a failure raised is also lifted by a worker's\n"
     "self-test.\n"
     "\n"
     "With --spread: how far the GPUs of one kind stand apart, for each config that a run or "
     "submit\n"
     "with --spread has measured on several of them. Ratios are to the median of the GPUs; half "
     "of\n"
     "what they part by is a floor under the noise of later final rounds of the op.",
     "  gktune workers\n  gktune workers drain 3 --reason 'new fan'\n"
     "  gktune workers fence GPU-7e1b --reason 'wrong results since Tuesday'\n"
     "  gktune workers --spread --op gemm\n",
     workers_options, 0, 2},
    {"drain", gk_cmd_drain, "let the daemon take no new work, and end what is out",
     "[--wait] [--off] [--reason TEXT] [--json]",
     "No job is taken and no lease goes out, also after a restart, until --off. Before an "
     "upgrade:\n"
     "drain --wait, then stop the daemon.",
     "  gktune drain --wait --reason 'upgrade to 0.2'\n  gktune drain --off\n", drain_options, 0,
     0},
    {"audit", gk_cmd_audit, "who did what, to what, and why", "[--verify] [--json]",
     "Every change that an operator or the daemon itself made. Each line's hash covers the line\n"
     "before it, so that what was changed or taken out is seen: by --verify and by db check.",
     "  gktune audit\n  gktune audit --verify\n", audit_options, 0, 0},
    {"doctor", gk_cmd_doctor, "what this machine has and lacks",
     "[--free-ballast | --bundle FILE [--log FILE].. [--config FILE] [--http ADDR:PORT]] [--json]",
     "Libraries and their known faults, devices, sandbox, state folder, store, disk and whether\n"
     "its fsync is honest, keys, the door of a daemon behind tcp (a key that nobody has admitted\n"
     "must be refused), limits, clock, hardening of installed units: a line each, with advice.\n"
     "Exits 2 when something needed is missing, 0 with warnings. --free-ballast gives up the file\n"
     "that gktuned keeps for a full disk, and does nothing else.\n"
     "--bundle writes what a report of a fault needs into a new file of mode 0600: version, these\n"
     "lines, settings, the end of logs, metrics, workers, jobs, dead letters, whether audit trail\n"
     "and store are whole (it reads all of it). No keys; names of hosts, jobs and shapes.",
     "  gktune doctor\n  gktune doctor --free-ballast --state /var/lib/gktune\n"
     "  journalctl -u gktuned -n 10000 -o cat > d.log; gktune doctor --bundle b.json --log d.log\n",
     doctor_options, 0, 0},
    {"db", gk_cmd_db, "care for the store",
     "check | backup FILE [--no-samples] | restore FILE | prune [--days N] [--dry-run] [--json]",
     "check reads everything; backup copies while work goes on; restore makes a store of a backup "
     "in a\n"
     "state folder that has none, and leaves its past behind: every lease that was out is void; "
     "prune\n"
     "says what would go, then deletes ended jobs' trials in small pieces, never what a pick rests "
     "on.",
     "  gktune db check\n  gktune db backup /backup/gktune.db --no-samples\n", db_options, 1, 2},
    {"keys", gk_cmd_keys, "who may use the daemon from other hosts",
     "new NAME --roles R,.. [--pool] [--hosts A,..] [--out FILE] [--server KEY] | add NAME "
     "--public KEY --roles R,.. | list | revoke NAME --reason TEXT [--json]",
     "Run on the daemon's host. new makes a key pair, admits it, and writes FILE, which is copied "
     "to "
     "the\n"
     "host that is to use it: gktune --connect tcp://.. --key FILE, gktune-worker --connect "
     "tcp://.. "
     "--key\n"
     "FILE. With --server it only makes the pair, on the host that will use it, so that the secret "
     "never\n"
     "travels; add then admits its public half. Roles: submit queues jobs and sends kernels, work "
     "takes\n"
     "leases, admin does all that is left. A running daemon hears of a change at once; sessions of "
     "a\n"
     "revoked key end. A name is never given twice.",
     "  gktune keys new alice --roles submit --out alice.key\n"
     "  gktune keys new farm --roles work --pool --hosts 10.1.0.0/16\n"
     "  gktune keys revoke alice --reason 'laptop lost'\n",
     keys_options, 1, 2},
    {"version", gk_cmd_version, "the version", "[--json]", "Of this build and its protocol.",
     "  gktune version\n", json_only, 0, 0},
};

const struct gk_command *gk_command_at(uint32_t index)
{
    return index < GK_ARRAY_COUNT(commands) ? &commands[index] : NULL;
}

const struct gk_command *gk_command_find(const char *name)
{
    for (size_t i = 0; i < GK_ARRAY_COUNT(commands); i++) {
        if (strcmp(commands[i].name, name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}
