#!/usr/bin/env python3
"""Refuses an include that crosses a wall of the house (docs/architecture.md).

Three tables say what may be included: rooms by rooms, kernel headers by rooms, and system headers that pure rooms
must do without. CMakeLists.txt gives each room the include folders of its libraries, which also brings in what is
reached through another room; this check demands that every include is allowed by itself, and that CMakeLists.txt
links no room that the table does not allow.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Folder under the root -> rooms it may include, besides itself.
ROOMS = {
    "src/base": [],
    "src/num": ["base"],
    "src/spec": ["base", "num"],
    "src/arch": ["base", "num", "spec"],
    "src/quant": ["base", "num", "spec"],
    "src/layout": ["base", "num", "spec"],
    "src/ref": ["base", "num", "spec"],
    "src/gen": ["base", "num", "spec", "arch", "layout"],
    "src/toolchain": ["base", "num", "spec"],
    "src/store": ["base", "num", "spec"],
    "src/device": ["base", "num", "spec"],
    "src/dispatch": ["base", "num", "spec", "arch"],
    "src/checkpoint": ["base", "num", "spec", "quant"],
    "src/runtime": ["base", "num", "spec", "arch", "quant", "layout", "gen", "toolchain", "store", "device",
                    "dispatch"],
    "src/api": ["base", "num", "spec", "quant", "layout", "checkpoint", "runtime"],
    "include": [],
    "kernels": [],
    # Makes the library's own kernels while the library is built, so it works from the rooms.
    "tools/build_builtin": ["base", "num", "spec", "arch", "layout", "gen", "toolchain", "store", "dispatch"],
    # Makes bundles of the same rooms.
    "tools/bundle": ["base", "num", "spec", "arch", "layout", "gen", "toolchain", "store", "dispatch"],
    "tools": [],
    "python": [],
    "bench": ["base", "num", "spec", "layout", "ref", "device"],
}

# Folder of kernels/ -> rooms that may include its headers (the contract between host and kernel).
KERNEL_HEADERS = {
    "common": ["layout", "gen", "device", "dispatch", "runtime", "bench"],
    "cpu": ["gen", "store", "device", "dispatch", "runtime", "bench"],
    "cuda": ["gen", "device", "bench", "tools/bundle"],
}

FILES = ["filesystem", "fstream", "fcntl.h", "sys/mman.h", "sys/stat.h", "unistd.h"]
THREADS = ["thread", "mutex", "condition_variable", "pthread.h", "future"]
PROCESSES = ["spawn.h", "sys/wait.h", "dlfcn.h"]
CLOCK = ["chrono", "time.h", "ctime"]

# Room -> system headers it must do without.
PURE = {
    "num": FILES + THREADS + PROCESSES + CLOCK,
    "spec": FILES + THREADS + PROCESSES + CLOCK,
    "arch": FILES + THREADS + PROCESSES + CLOCK,
    "quant": FILES + THREADS + PROCESSES + CLOCK,
    "layout": THREADS + PROCESSES + CLOCK,
    "ref": FILES + PROCESSES + CLOCK,
    "gen": FILES + THREADS + PROCESSES + CLOCK,
}

# Headers of drivers and frameworks: drivers are opened with dlopen, frameworks live outside.
FOREIGN = re.compile(r"^(cuda|hip|nvrtc|hsa|torch|ATen|c10|Python\.h|pybind11|nanobind)")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
ROOM_CALL = re.compile(r"scalegemm_room\((\w+)([^)]*)\)")
NAMES = [folder.removeprefix("src/") for folder in ROOMS if folder.startswith("src/")]


def folder_of(path):
    return next((folder for folder in ROOMS if path.is_relative_to(folder)), None)


def fault_of(path, folder, quote, header):
    """What is wrong with this include, or None."""
    room = folder.removeprefix("src/")
    target = header.split("/")[0]
    if folder.startswith("src/") or folder == "include":
        if FOREIGN.match(header) and target not in ROOMS and target not in KERNEL_HEADERS:
            return "headers of drivers and frameworks stay outside"
    if quote == "<":
        if header in PURE.get(room, []):
            return f"the room '{room}' is pure"
        return None
    if target in NAMES:
        if target != room and target not in ROOMS[folder]:
            return f"'{room}' may include only {', '.join(ROOMS[folder]) or 'no room'}"
        return None if (ROOT / "src" / header).is_file() else "there is no such file"
    if target in KERNEL_HEADERS and folder != "kernels" and (ROOT / "kernels" / header).is_file():
        return None if room in KERNEL_HEADERS[target] else f"'{room}' may not include kernel headers of '{target}'"
    if folder.startswith("src/") and "/" not in header:
        return f'write "{room}/..." with the room\'s name'
    return None


def include_faults():
    count = 0
    for pattern in ("*.h", "*.hpp", "*.cc", "*.cpp", "*.cu", "*.cuh"):
        for top in ("src", "include", "kernels", "tools", "python", "bench"):
            for file in sorted((ROOT / top).rglob(pattern)):
                path = file.relative_to(ROOT)
                folder = folder_of(path)
                if folder is None:
                    yield f"{path}: a room that cmake/check_includes.py does not know"
                    continue
                for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
                    match = INCLUDE.match(line)
                    fault = match and fault_of(path, folder, *match.groups())
                    if fault:
                        yield f"{path}:{number}: {match.group(2)}: {fault}"
                count += 1
    if count == 0:
        yield "no source file was found"


def cmake_faults():
    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    for room, arguments in ROOM_CALL.findall(text):
        words = arguments.split()
        linked = []
        if "ROOMS" in words:
            linked = words[words.index("ROOMS") + 1:]
        if "USES" in linked:
            linked = linked[:linked.index("USES")]
        for other in linked:
            if other not in ROOMS.get(f"src/{room}", []):
                yield f"CMakeLists.txt: room '{room}' links '{other}', which cmake/check_includes.py does not allow"


def main():
    faults = [*include_faults(), *cmake_faults()]
    for fault in faults:
        print(fault)
    print(f"{len(faults)} forbidden includes")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
