#!/usr/bin/env python3
"""Validates JSON files against a JSON Schema: validate.py SCHEMA FILE...

Exit status: 0 all valid, 1 something is not (each place is named on stderr), 2 bad usage.
With --lines, each FILE holds one JSON value a line. With --invalid, every value must be refused.
"""
import argparse
import json
import os
import sys
import warnings

import jsonschema


def values(path, lines):
    with open(path, encoding="utf-8") as handle:
        if not lines:
            yield path, json.load(handle)
            return
        for number, line in enumerate(handle, 1):
            if line.strip():
                yield f"{path}:{number}", json.loads(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("schema")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--lines", action="store_true", help="one JSON value a line")
    parser.add_argument("--invalid", action="store_true", help="every value must be refused")
    args = parser.parse_args()
    with open(args.schema, encoding="utf-8") as handle:
        schema = json.load(handle)
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    # Schemas refer to their neighbours by file name.
    folder = "file://" + os.path.dirname(os.path.abspath(args.schema)) + "/"
    with warnings.catch_warnings():  # newer releases deprecate it; Debian's has nothing else
        warnings.simplefilter("ignore")
        resolver = jsonschema.RefResolver(base_uri=folder, referrer=schema)
    validator = kind(schema, resolver=resolver)
    bad = count = 0
    for path in args.files:
        for where, value in values(path, args.lines):
            count += 1
            errors = sorted(validator.iter_errors(value), key=lambda e: list(e.absolute_path))
            if args.invalid and not errors:
                bad += 1
                print(f"{where}: accepted, and must not be", file=sys.stderr)
            for error in [] if args.invalid else errors:
                bad += 1
                place = "/".join(str(part) for part in error.absolute_path)
                print(f"{where}: at /{place}: {error.message}", file=sys.stderr)
    if count == 0:
        print("nothing to validate", file=sys.stderr)
        return 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
