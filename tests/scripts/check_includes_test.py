"""cmake/check_includes.py on small trees: what it must refuse, and what it must let pass."""

import pathlib
import shutil
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "cmake" / "check_includes.py"


def check(tmp_path, files, cmake=""):
    tree = {"src/base/status.h": "", "src/num/dtype.h": "", "src/gen/generate.h": "", "src/arch/legal.h": "",
            "kernels/cpu/abi.h": "", "CMakeLists.txt": cmake, **files}
    for name, content in tree.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (tmp_path / "cmake").mkdir()
    shutil.copy(SCRIPT, tmp_path / "cmake")
    return subprocess.run([sys.executable, tmp_path / "cmake" / SCRIPT.name], capture_output=True, text=True)


@pytest.mark.parametrize("name,include", [
    ("src/num/convert.cc", '"num/dtype.h"'),
    ("src/gen/x.cc", '"arch/legal.h"'),
    ("src/device/cpu/x.cc", '"cpu/abi.h"'),
    ("src/base/x.cc", "<fstream>"),
    ("tools/scalegemm/main.cc", '"own_header.h"'),
    ("kernels/cpu/x.cc", '"cpu/abi.h"'),
])
def test_passes(tmp_path, name, include):
    run = check(tmp_path, {name: f"#include {include}\n"})
    assert run.returncode == 0, run.stdout


@pytest.mark.parametrize("name,include,reason", [
    ("src/num/x.cc", '"gen/generate.h"', "'num' may include only base"),
    ("src/ref/x.cc", '"arch/legal.h"', "'ref' may include only"),
    ("src/base/x.cc", '"num/dtype.h"', "'base' may include only no room"),
    ("src/quant/x.cc", '"cpu/abi.h"', "may not include kernel headers"),
    ("src/gen/x.cc", "<fstream>", "the room 'gen' is pure"),
    ("src/quant/x.cc", "<thread>", "the room 'quant' is pure"),
    ("src/device/x.cc", "<cuda.h>", "drivers and frameworks"),
    ("include/scalegemm/scalegemm.hpp", '"base/status.h"', "may include only no room"),
    ("tools/scalegemm/main.cc", '"base/status.h"', "may include only no room"),
    ("kernels/cpu/x.cc", '"base/status.h"', "may include only no room"),
    ("src/num/x.cc", '"dtype.h"', "with the room's name"),
    ("src/num/x.cc", '"num/missing.h"', "no such file"),
    ("src/attic/x.cc", "<vector>", "does not know"),
])
def test_refuses(tmp_path, name, include, reason):
    run = check(tmp_path, {name: f"#include {include}\n"})
    assert run.returncode == 1 and reason in run.stdout, run.stdout


def test_refuses_a_link_that_the_table_does_not_allow(tmp_path):
    good = "scalegemm_room(num ROOMS base USES fmt)\n"
    assert check(tmp_path, {}, good).returncode == 0
    shutil.rmtree(tmp_path / "cmake")
    run = check(tmp_path, {}, good + "scalegemm_room(ref ROOMS base arch)\n")
    assert run.returncode == 1 and "room 'ref' links 'arch'" in run.stdout
