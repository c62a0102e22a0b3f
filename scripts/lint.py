#!/usr/bin/env python3
"""clang-tidy over src/, in parallel, remembering what passed.

A file is looked at again only when it, a header of ours that it includes, .clang-tidy or clang-tidy itself changed:
the key is a hash of all these, taken from the dependencies that ninja recorded, so the build comes first.
"""

import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def recorded_dependencies(build):
    """Object file -> files of this repository that it was compiled from."""
    text = subprocess.run(["ninja", "-C", build, "-t", "deps"], check=True, capture_output=True, text=True).stdout
    found, current = {}, []
    for line in text.splitlines():
        if line and not line.startswith(" "):
            current = found.setdefault(line.split(":")[0], [])
        elif line.strip():
            path = (build / line.strip()).resolve()
            if path.is_relative_to(ROOT):
                current.append(path)
    return found


def compile_commands(build):
    """Source file under src/ -> its object file, from the compilation database."""
    result = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = pathlib.Path(entry["file"]).resolve()
        if source.is_relative_to(ROOT / "src"):
            words = entry["command"].split()
            result[source] = words[words.index("-o") + 1]
    return result


def key_of(source, dependencies, version):
    digest = hashlib.sha256(version)
    for path in sorted({source, ROOT / ".clang-tidy", *dependencies}):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def lint(build, source):
    command = ["clang-tidy", "--quiet", "-p", str(build), "--warnings-as-errors=*", str(source)]
    run = subprocess.run(command, capture_output=True, text=True)
    return run.returncode, run.stdout + (run.stderr if run.returncode else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="a build folder of CMake with Ninja")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    if not (build / "compile_commands.json").is_file():
        sys.exit(f"error: {arguments.build} holds no compile_commands.json: build first")
    version = subprocess.run(["clang-tidy", "--version"], check=True, capture_output=True).stdout
    cache = build / "lint"
    cache.mkdir(exist_ok=True)

    dependencies = recorded_dependencies(build)
    keys = {source: key_of(source, dependencies.get(target, []), version)
            for source, target in compile_commands(build).items()}
    if not keys:
        sys.exit("error: the compilation database names no file under src/")
    pending = sorted(source for source, key in keys.items() if not (cache / key).exists())
    print(f"{len(keys)} files, {len(keys) - len(pending)} unchanged since they passed")

    failures, began = 0, time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        results = zip(pending, pool.map(lambda source: lint(build, source), pending))
        for count, (source, (code, output)) in enumerate(results, 1):
            if code == 0:
                (cache / keys[source]).touch()
            else:
                failures += 1
                print(output)
            if count % 20 == 0:
                print(f"{count} of {len(pending)} files after {time.monotonic() - began:.0f} s", flush=True)
    print(f"{failures} of {len(keys)} files with findings")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
