"""Plans, packed files, exceptions, threads."""

import ast
import importlib.metadata
import json
import pathlib
import re
import subprocess
import sys
import threading

import numpy as np
import pytest

import scalegemm as sg


@pytest.fixture
def packed(rng):
    return sg.pack(rng.standard_normal((33, 128), np.float32), "mxfp4")


def test_version_is_one():
    assert importlib.metadata.version("scalegemm") == sg.__version__


def test_plans_are_kept():
    problem = sg.problem("mxfp4", 3, 5, 64)
    assert problem == sg.problem("mxfp4", 3, 5, 64) and hash(problem) == hash(sg.problem("mxfp4", 3, 5, 64))
    assert problem != sg.problem("mxfp4", 4, 5, 64)
    assert sg.plan(problem) is sg.plan(sg.problem("mxfp4", 3, 5, 64))
    assert sg.plan(problem) is not sg.plan(problem, threads=1)
    assert sg.plan(problem).problem == problem
    assert sg.runtime() is sg.runtime()


def test_problem_of_operands():
    assert sg.problem(sg.operands("nvfp4"), 3, 5, 64) == sg.problem("nvfp4", 3, 5, 64)
    e4m3 = sg.Operand("e4m3", scale="f32", block=(1, 128))
    assert e4m3 == sg.operands("abquant")[0] and e4m3 != sg.operands("mxfp8")[0] and e4m3 != "e4m3"
    assert (e4m3.dtype, e4m3.scale, e4m3.block, e4m3.zero, e4m3.has_global) == ("e4m3", "f32", (1, 128), None, False)


def test_a_kernel_by_name():
    problem = sg.problem("rowcol", 3, 5, 64)
    name = sg.plan(problem).kernel
    assert sg.plan(problem, kernel=name).kernel == name
    with pytest.raises(sg.Error):
        sg.plan(problem, kernel="gemm_nothing")


def test_explain_and_query():
    problem = sg.problem("rowcol", 3, 5, 64)
    assert sg.plan(problem).kernel in sg.explain(problem)
    assert json.loads(sg.explain(problem, json=True))
    assert "sm_90a" in sg.explain(problem, device="sm_90a")
    support = sg.runtime().query(problem)
    assert support and support.kernel == sg.plan(problem).kernel and support.reason


def test_a_runtime_of_ones_own(tmp_path, rng):
    runtime = sg.Runtime(threads=1, jit=False, cache_dir=str(tmp_path), cpu_target="x86-64-v3")
    assert runtime.devices()[0].name == "cpu" and runtime.devices()[0].cores >= 1
    x = rng.integers(-4, 5, (3, 64)).astype(np.float32)
    assert np.array_equal(runtime.plan(sg.problem("none:a=f32", 3, 3, 64)).run(x, x), x @ x.T)
    assert runtime.warnings() == ""


def test_a_plan_outlives_its_runtime(tmp_path, rng):
    plan = sg.Runtime(cache_dir=str(tmp_path)).plan(sg.problem("none:a=f32", 3, 3, 64))
    x = rng.integers(-4, 5, (3, 64)).astype(np.float32)
    assert np.array_equal(plan.run(x, x), x @ x.T)


def test_packed_files(packed, tmp_path, rng):
    path = tmp_path / "weights.sg"
    packed.save(path)
    loaded = sg.Packed.load(str(path))
    assert path.stat().st_size == loaded.info().bytes
    assert loaded.info().digest == packed.info().digest and len(loaded.info().digest) == 32
    x = rng.standard_normal((3, 128), np.float32)
    assert np.array_equal(sg.matmul(x, loaded, "mxfp4"), sg.matmul(x, packed, "mxfp4"))

    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(sg.CorruptData):
        sg.Packed.load(path)
    with pytest.raises(sg.IoError) as caught:
        sg.Packed.load(tmp_path / "missing")
    assert isinstance(caught.value, OSError)


def test_packed_is_not_raw(packed, rng):
    x = rng.standard_normal((3, 128), np.float32)
    raw = sg.plan(sg.problem((sg.Operand("f32"), packed.info().operand), 3, 33, 128))
    with pytest.raises(sg.InvalidArgument, match="b"):
        raw.run(x, packed)
    with pytest.raises(sg.InvalidArgument, match="the scheme needs"):
        sg.matmul(x, packed, "nvfp4")


def test_pack_for_a_problem(rng):
    w = sg.quantize(rng.standard_normal((33, 128), np.float32), "mxfp4")
    problem = sg.problem("mxfp4", 1, 33, 128, packed=True)
    assert sg.pack(w, problem).info().digest == sg.pack(w, "mxfp4").info().digest
    with pytest.raises(sg.InvalidArgument, match="packing"):
        sg.pack(w, sg.problem("mxfp4", 1, 33, 128))


def test_a_class_for_each_status():
    classes = [getattr(sg, name) for name in sg.__all__ if isinstance(getattr(sg, name), type)]
    errors = [cls for cls in classes if issubclass(cls, sg.Error) and cls is not sg.Error]
    assert sorted(cls.status for cls in errors) == list(range(1, 11))
    assert issubclass(sg.InvalidArgument, ValueError)
    assert issubclass(sg.Unsupported, NotImplementedError)
    assert issubclass(sg.OutOfMemory, MemoryError)


def test_other_errors():
    for device in ("tpu", "cuda:99"):
        with pytest.raises(sg.NoDevice, match=device):
            sg.plan(sg.problem("mxfp4", 1, 1, 2), device=device)
    plan = sg.plan(sg.problem("none:a=f32", 1, 1, 1))
    with pytest.raises(sg.InvalidArgument, match="stream"):
        plan.run(np.ones((1, 1), np.float32), np.ones((1, 1), np.float32), stream=1)
    with pytest.raises(TypeError):
        plan.run()


def test_threads_share_plans_and_weights(rng):
    w = sg.pack(rng.standard_normal((64, 256), np.float32), "rowcol")
    inputs = [rng.standard_normal((m, 256), np.float32) for m in (1, 2, 3, 4)]
    want = [sg.matmul(x, w, "rowcol") for x in inputs]
    failures = []

    def work(i):
        for _ in range(50):
            if not np.array_equal(sg.matmul(inputs[i], w, "rowcol"), want[i]):
                failures.append(i)

    threads = [threading.Thread(target=work, args=(i % 4,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_run_gives_up_the_gil():
    """While one thread is in run, this one goes on counting."""
    x = np.ones((1024, 2048), np.float32)
    out = np.empty((1024, 1024), np.float32)
    plan = sg.plan(sg.problem("none:a=f32", 1024, 1024, 2048), threads=1)

    def counted_beside():
        done = threading.Event()
        thread = threading.Thread(target=lambda: (plan.run(x, x, out), done.set()))
        thread.start()
        count = 0
        while not done.is_set():
            count += 1
        thread.join()
        return count

    # Some 50 ms; with the GIL held a count is a few. A busy machine may stop this thread, though not each time.
    assert any(counted_beside() > 1000 for _ in range(20))
    assert (out == 2048).all()


def test_no_reference_is_kept():
    x, out = np.ones((4, 8), np.float32), np.empty((4, 4), np.float32)
    q = sg.quantize(x, "int8", "a")
    plan = sg.plan(sg.problem("none:a=f32", 4, 4, 8))
    counts = [sys.getrefcount(thing) for thing in (x, out, q, plan)]
    for _ in range(10):
        plan.run(x, x, out)
        sg.matmul(q, q, out=out)
        with pytest.raises(sg.InvalidArgument):
            plan.run(x, x, out, bias=out)
    assert [sys.getrefcount(thing) for thing in (x, out, q, plan)] == counts


def test_stubs_name_what_there_is():
    tree = ast.parse(pathlib.Path(sg._core.__file__).with_name("_core.pyi").read_text(encoding="utf-8"))

    def names(body):
        return {node.name for node in body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}

    def public(thing):
        return {name for name in vars(thing) if not name.startswith("_")}

    assert names(tree.body) == public(sg._core)
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            stubs = {name for name in names(node.body) if not name.startswith("__")}
            assert stubs == public(getattr(sg._core, node.name)), node.name


def test_the_extension_exports_its_init_function_alone():
    done = subprocess.run(
        ["nm", "-D", "--defined-only", sg._core.__file__], capture_output=True, text=True, check=True
    )
    assert [line.split()[-1] for line in done.stdout.splitlines()] == ["PyInit__core"]


def test_the_readme_runs():
    readme = (pathlib.Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    [program] = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    names = {}
    exec(program, names)  # noqa: S102
    assert names["y"].shape == names["z"].shape == (3, 512)


def test_every_name_has_a_docstring():
    for name in sg.__all__:
        assert getattr(sg, name).__doc__, name
    assert "workspace" in sg.Plan.run.__doc__


def test_scales_must_be_as_many_matrices_as_codes():
    operand = sg.operands("int8")[1]
    codes = np.ones((6, 4, 64), np.int8)
    big = np.ones((8, 4, 1), np.float32)
    for count in (2, 3, 7):
        with pytest.raises(sg.InvalidArgument, match="scales: must be one matrix or 6"):
            sg.Quantized(codes, operand, scales=big[:count])
    with pytest.raises(sg.InvalidArgument, match="scales: must be one matrix or 1"):
        sg.Quantized(codes[:1], operand, scales=big[:3])
    one = sg.Quantized(codes, operand, scales=big[:1])
    assert sg.dequantize(one).shape == (6, 4, 64)


def test_a_plan_refuses_weights_of_other_blocks(rng):
    weights = sg.quantize(rng.standard_normal((4, 80), np.float32), sg.Operand("int8", scale="f32", block=(1, 48)))
    problem = sg.problem((sg.Operand("f32"), sg.Operand("int8", scale="f32", block=(1, 40))), 1, 4, 80)
    with pytest.raises(sg.InvalidArgument, match="b: must be quantised as the problem says"):
        sg.plan(problem).run(np.ones((1, 80), np.float32), weights)


def test_objects_without_init_are_refused():
    plan = sg.plan(sg.problem("none:a=f32", 1, 4, 64, packed=True))
    x = np.ones((1, 64), np.float32)
    for wrong in (sg.Packed.__new__(sg.Packed), sg.Quantized.__new__(sg.Quantized), sg.Tensor.__new__(sg.Tensor)):
        with pytest.raises(TypeError, match="__init__ was not called"):
            plan.run(x, wrong)
        with pytest.raises(TypeError, match="__init__ was not called"):
            sg.matmul(x, wrong)


def test_workspaces_are_written_and_so_must_be_writable_and_dense():
    plan = sg.plan(sg.problem("none", 2, 5, 8192, packed=True))
    a = np.zeros((2, 8192), np.uint16)
    packed = sg.pack(sg.view(np.zeros((5, 8192), np.uint16), "bf16"), "none")
    room = np.zeros(2 * plan.workspace_bytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    for wrong in (np.frombuffer(room.tobytes(), np.uint8), room[start::2]):
        with pytest.raises(sg.InvalidArgument, match="workspace: must be writable and without gaps"):
            plan.run(sg.view(a, "bf16"), packed, workspace=wrong)
    plan.run(sg.view(a, "bf16"), packed, workspace=room[start:])
