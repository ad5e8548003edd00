#!/usr/bin/env python3
"""Checks a page of /metrics as a strict reader of Prometheus' text format would, and that every metric which alerts and
pages name is on it: exposition.py PAGE [FILE...], or exposition.py --self-test. No network, no package."""
import re
import sys

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*\Z")
SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{([^}]*)\})? (\S+)\Z")
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\[\\"n])*)"')
# Label names and how many values each may have at most: a label that anybody can name has no place here.
LABELS = {"state": 4, "class": 3, "cause": 2, "verdict": 40, "phase": 3, "code": 12, "errno": 2, "reason": 16, "version": 1,
          "level": 4, "le": 20, "role": 3, "how": 5, "kind": 2}
UNITS = ("_seconds", "_bytes", "_total", "_info", "_count", "_ratio")


def number(text):
    if text in ("+Inf", "-Inf", "NaN"):
        return float(text.replace("Inf", "inf"))
    if not re.match(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?\Z", text):
        raise ValueError("no number: " + text)
    return float(text)


def labels_of(text):
    found, at = {}, 0
    while at < len(text):
        match = LABEL.match(text, at)
        if not match:
            raise ValueError("labels: " + text)
        if match.group(1) in found:
            raise ValueError("label twice: " + text)
        found[match.group(1)] = match.group(2)
        at = match.end()
        if at < len(text):
            if text[at] != ",":
                raise ValueError("labels: " + text)
            at += 1
    return found


def check_histogram(name, samples):
    series = {}
    for full, labels, value in samples:
        rest = tuple(sorted((k, v) for k, v in labels.items() if k != "le"))
        entry = series.setdefault(rest, {"buckets": [], "sum": None, "count": None})
        if full == name + "_bucket":
            entry["buckets"].append((number(labels["le"]), value))
        elif full == name + "_sum":
            entry["sum"] = value
        elif full == name + "_count":
            entry["count"] = value
        else:
            raise ValueError(name + ": sample " + full)
    for entry in series.values():
        bounds = [bound for bound, _ in entry["buckets"]]
        counts = [count for _, count in entry["buckets"]]
        if bounds != sorted(set(bounds)) or not bounds or bounds[-1] != float("inf"):
            raise ValueError(name + ": bounds " + str(bounds))
        if counts != sorted(counts) or entry["count"] != counts[-1] or entry["sum"] is None:
            raise ValueError(name + ": counts " + str(counts))


def check_family(name, kind, samples):
    if kind == "counter" and not name.endswith("_total"):
        raise ValueError(name + ": a counter ends in _total")
    if kind != "counter" and name.endswith("_total"):
        raise ValueError(name + ": only a counter ends in _total")
    if kind == "histogram":
        if not name.endswith(("_seconds", "_rows")):
            raise ValueError(name + ": a histogram is of seconds or of rows")
        check_histogram(name, samples)
    else:
        for full, _, value in samples:
            if full != name:
                raise ValueError(name + ": sample " + full)
            if kind == "counter" and not value >= 0:
                raise ValueError(name + ": " + str(value))
    if re.search(r"_(ms|ns|us|milliseconds|kb|mb|kib|mib|minutes|hours)(_|$)", name):
        raise ValueError(name + ": base units are seconds and bytes")
    if not samples:
        raise ValueError(name + ": no sample")


def check_page(text):
    """{name: kind}; raises ValueError."""
    if not text.endswith("\n") or "\r" in text:
        raise ValueError("lines end in one line feed")
    families, order, current, seen, values = {}, [], None, set(), {}
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            name, _, words = line[7:].partition(" ")
            if name in families or not NAME.match(name) or not words.strip():
                raise ValueError("HELP: " + line)
            families[name] = {"type": None, "samples": []}
            current = name
        elif line.startswith("# TYPE "):
            name, _, kind = line[7:].partition(" ")
            if name != current or families[name]["type"] or kind not in ("counter", "gauge", "histogram"):
                raise ValueError("TYPE: " + line)
            families[name]["type"] = kind
        else:
            match = SAMPLE.match(line)
            if not match:
                raise ValueError("line: " + line)
            full, labels, value = match.group(1), labels_of(match.group(2) or ""), number(match.group(3))
            if not current or not families[current]["type"] or not full.startswith(current):
                raise ValueError("sample outside its family: " + line)
            key = (full, tuple(sorted(labels.items())))
            if key in seen:
                raise ValueError("twice: " + line)
            seen.add(key)
            for label, is_ in labels.items():
                if label not in LABELS:
                    raise ValueError("label '%s' has no closed set: %s" % (label, line))
                values.setdefault((current, label), set()).add(is_)
                if len(values[(current, label)]) > LABELS[label]:
                    raise ValueError("too many values of " + label + ": " + line)
            families[current]["samples"].append((full, labels, value))
    for name, family in families.items():
        if not name.startswith(("gktune_", "process_")):
            raise ValueError(name + ": prefix")
        if not family["type"]:
            raise ValueError(name + ": no TYPE")
        check_family(name, family["type"], family["samples"])
    if not families:
        raise ValueError("an empty page")
    return {name: family["type"] for name, family in families.items()}


def check_mentions(path, text, families):
    known = set(families)
    for name, kind in families.items():
        if kind == "histogram":
            known |= {name + "_bucket", name + "_sum", name + "_count"}
    mentioned = set(re.findall(r"\b(?:gktune|process)_[a-z0-9_]*[a-z0-9]\b", text))
    # Words of other things: files and records made from metrics by rules.
    mentioned -= set(re.findall(r"record: (\S+)", text))
    unknown = sorted(mentioned - known)
    if unknown:
        raise ValueError("%s names what no page has: %s" % (path, ", ".join(unknown)))
    return len(mentioned)


GOOD = """# HELP gktune_a_total A.
# TYPE gktune_a_total counter
gktune_a_total{state="x"} 1
# HELP gktune_b_seconds B.
# TYPE gktune_b_seconds histogram
gktune_b_seconds_bucket{le="0.5"} 1
gktune_b_seconds_bucket{le="+Inf"} 2
gktune_b_seconds_sum 3.5
gktune_b_seconds_count 2
"""


def self_test():
    families = check_page(GOOD)
    check_mentions("x", "rate(gktune_b_seconds_count[5m]) > gktune_a_total", families)
    bad = [GOOD[:-1], GOOD.replace("_total counter", "_total gauge"), GOOD.replace("gktune_a_total", "gktune_a"),
           GOOD.replace('state="x"', 'job="mine"'), GOOD.replace('"+Inf"} 2', '"+Inf"} 0'), GOOD.replace('le="+Inf"', 'le="9"'),
           GOOD.replace("_count 2", "_count 3"), GOOD.replace("# HELP gktune_a_total A.\n", ""), GOOD + GOOD,
           GOOD.replace("} 1", "} 1,5"), GOOD.replace('"x"', '"x\\q"'), GOOD.replace("gktune_b_seconds", "gktune_b_ms"),
           GOOD.replace("3.5", "nan"), GOOD.replace('gktune_a_total{state="x"} 1\n', ""), GOOD.replace("# TYPE gktune_b_seconds histogram\n", ""),
           GOOD.replace("gktune_a_total", "other_a_total"), GOOD.replace('{state="x"} 1', '{state="x"} -1'), "\n", ""]
    for text in bad:
        try:
            check_page(text)
        except ValueError:
            continue
        raise SystemExit("accepted:\n" + text)
    try:
        check_mentions("x", "gktune_nothing_total > 0", families)
    except ValueError:
        return len(bad) + 1
    raise SystemExit("a metric that there is not was accepted")


def check_pages(paths):
    """Every alert has a row in the operators' page, and every event of the log is on it."""
    texts = {path: open(path, encoding="utf-8").read() for path in paths}
    pages = "".join(text for path, text in texts.items() if path.endswith(".md"))
    alerts = [name for text in texts.values() for name in re.findall(r"alert: (\w+)", text)]
    events = [name for text in texts.values() for name in re.findall(r"^    X\([A-Z_]+, (\w+), [A-Z]+\)", text, re.M)]
    missing = [name for name in alerts if "| %s |" % name not in pages] + [name for name in events if "`%s`" % name not in pages]
    if missing:
        raise ValueError("no page for operators says what to do about " + ", ".join(missing))
    return len(alerts), len(events)


def main():
    if sys.argv[1:] == ["--self-test"]:
        print("%d bad pages refused" % self_test())
        return
    with open(sys.argv[1], encoding="utf-8") as page:
        families = check_page(page.read())
    for path in sys.argv[2:]:
        with open(path, encoding="utf-8") as file:
            print("%s: %d metrics" % (path, check_mentions(path, file.read(), families)))
    if len(sys.argv) > 2:
        print("%d alerts, %d events explained" % check_pages(sys.argv[2:]))
    print("%d families" % len(families))


if __name__ == "__main__":
    try:
        main()
    except ValueError as error:
        raise SystemExit("exposition: %s" % error)
