#!/usr/bin/env python3
"""http_get.py URL: the body on stdout; exit 0 for a status of 200, 1 for any other, 2 when nobody answers."""
import sys
import urllib.error
import urllib.request

try:
    with urllib.request.urlopen(sys.argv[1], timeout=5) as answer:
        sys.stdout.write(answer.read().decode())
except urllib.error.HTTPError as error:
    sys.stdout.write(error.read().decode())
    sys.exit(1)
except OSError as error:
    print(error, file=sys.stderr)
    sys.exit(2)
