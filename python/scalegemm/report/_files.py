"""The CSV files of scalegemm as rows of one kind, whatever command wrote them."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import pathlib
import re
from typing import Any, Callable, Optional

BASELINE = "none:a=f32"  # what CPU files are compared with


class ReportError(ValueError):
    """A file that cannot be used: which, where, what was needed and what was given."""


@dataclasses.dataclass(frozen=True)
class Timing:
    """One measured product, and where there is one the peer that was timed with it."""

    name: str
    m: int
    n: int
    """0: of a quantiser, which has none."""
    k: int
    scheme: str
    kernel: str
    us: float
    """Median."""
    tflops: Optional[float]
    """2·M·N·K / us; None: nothing is multiplied."""
    intensity: Optional[float]
    """2·M·N·K / bytes of A, B, scales and D."""
    peer: str
    """"": none."""
    ratio: Optional[float]
    """Time of the peer / us: above 1 scalegemm is faster. None: the peer cannot do it."""

    @property
    def label(self) -> str:
        sizes = f"{self.m}×{self.k}" if self.n == 0 else f"{self.m}×{self.n}×{self.k}"
        return f"{self.name}  {sizes}".strip()


@dataclasses.dataclass(frozen=True)
class ErrorRow:
    """Errors |d - exact| / sum of |a b| of one case of `scalegemm accuracy`."""

    scheme: str
    accuracy: str
    data: str
    k: int
    max: float
    rms: float
    elements: int
    histogram: Optional[dict[int, int]]
    """e: elements whose error lies in [2^e, 2^(e + 1)); the others are exact. None: of an older scalegemm."""


@dataclasses.dataclass(frozen=True)
class QualityRow:
    """A scheme on the weights of one shape of a model, from `scalegemm evaluate`."""

    scheme: str
    bits: float
    sqnr_db: float
    """Infinity: exact."""
    error_over_bound: float


@dataclasses.dataclass(frozen=True)
class Ceilings:
    """Measured limits of a device."""

    tflops: dict[str, float]
    """By kind: "e4m3", "e4m3 promoted", "bf16", "int8", "f32"."""
    tbps: Optional[float]
    """Of reads from memory."""


@dataclasses.dataclass
class File:
    path: str
    name: str
    """The path's last part without its ending; with the folder where another file has that name."""
    header: list[str]
    """Comment lines before the columns."""
    timings: list[Timing] = dataclasses.field(default_factory=list)
    errors: list[ErrorRow] = dataclasses.field(default_factory=list)
    qualities: list[QualityRow] = dataclasses.field(default_factory=list)
    left_out: list[str] = dataclasses.field(default_factory=list)
    """What was measured and is not shown, because a proof failed."""
    ceilings: Optional[Ceilings] = None

    def fact(self, word: str) -> str:
        """ "NVIDIA H200, 132 multiprocessors" of "# device NVIDIA H200, 132 multiprocessors"; "" without one."""
        for line in self.header:
            found = re.match(rf"(?:model \S+, )?{word}:? (.*)", line)
            if found:
                return found[1]
        return ""

    @property
    def device(self) -> str:
        """ "NVIDIA H200"; "AMD EPYC, target avx512bf16"; "" where the file does not say it."""
        device = self.fact("device")
        target = re.search(r", target \w+", device)
        return re.split(r"[,;]", device)[0] + (target[0] if target else "")


class Row:
    """A line of a file, whose fields are converted with errors that say where."""

    def __init__(self, where: str, fields: dict[str, str]):
        self.where = where
        self.fields = fields

    def refuse(self, column: str, needed: str) -> ReportError:
        return ReportError(f"{self.where}: {column}: needed {needed}; given {self.fields[column]!r}")

    def text(self, column: str) -> str:
        if not self.fields[column]:
            raise self.refuse(column, "a text")
        return self.fields[column]

    def size(self, column: str) -> int:
        text = self.fields[column]
        if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) < 1:
            raise self.refuse(column, "a positive integer")
        return int(text)

    def number(self, column: str, least: float = 0, infinite: bool = False) -> float:
        try:
            value = float(self.fields[column])
        except ValueError:
            value = math.nan
        if not value >= least or (math.isinf(value) and not infinite):
            raise self.refuse(column, f"a number of at least {least:g}")
        return value

    def positive(self, column: str) -> float:
        value = self.number(column)
        if value == 0:
            raise self.refuse(column, "a number above 0")
        return value

    def optional(self, column: str) -> Optional[float]:
        """Empty, or nan in older files: there is none."""
        return None if self.fields[column] in ("", "nan") else self.positive(column)

    def verified(self) -> bool:
        if self.fields["verified"] not in ("yes", "no"):
            raise self.refuse("verified", "yes or no")
        return self.fields["verified"] == "yes"


def _timing(row: Row, *, peer: str, ratio: Optional[float], bandwidth: bool = True) -> Timing:
    m, n, k = row.size("m"), row.size("n"), row.size("k")
    us = row.positive("median_us")
    operations = 2.0 * m * n * k
    # gbps is a whole number on GPUs: 0 for what moves less than half a GB/s.
    moved = row.number("gbps") * us * 1e3 if bandwidth else 0
    return Timing(
        name=row.fields.get("name", ""),  # shapes of a model have none
        m=m,
        n=n,
        k=k,
        scheme=row.text("scheme"),
        kernel=row.text("kernel"),
        us=us,
        tflops=operations / us / 1e6,
        intensity=operations / moved if moved else None,
        peer=peer,
        ratio=ratio,
    )


def _take_gpu(file: File, row: Row) -> None:
    row.optional("share_of_ceiling")
    peer_us = row.optional("peer_us")
    row.optional("ratio")
    timing = _timing(row, peer=row.fields["peer"], ratio=None)
    # Of the times: the column is rounded.
    file.timings.append(dataclasses.replace(timing, ratio=peer_us / timing.us if peer_us else None))


def _take_cpu(file: File, row: Row) -> None:
    row.optional("share_of_ceiling")
    file.timings.append(_timing(row, peer="", ratio=None))


def _take_quantizer(file: File, row: Row) -> None:
    us = row.positive("median_us")
    file.timings.append(
        Timing(
            name=row.text("name"),
            m=row.size("m"),
            n=0,
            k=row.size("k"),
            scheme=row.text("scheme"),
            kernel=f"quantise from {row.text('source')}",
            us=us,
            tflops=None,
            intensity=None,
            peer="copy of as many bytes",
            ratio=row.positive("copy_us") / us,
        )
    )


def _take_evaluation(file: File, row: Row) -> None:
    if row.number("median_us") > 0:  # 0: not taken
        file.timings.append(_timing(row, peer="", ratio=None, bandwidth=False))
    file.qualities.append(
        QualityRow(
            scheme=row.text("scheme"),
            bits=row.positive("bits_per_weight"),
            sqnr_db=row.number("sqnr_db", least=-math.inf, infinite=True),
            error_over_bound=row.number("worst_error_over_bound"),
        )
    )


def _take_accuracy(file: File, row: Row) -> None:
    elements = row.size("elements")
    file.errors.append(
        ErrorRow(
            scheme=row.text("scheme"),
            accuracy=row.text("accuracy"),
            data=row.text("data"),
            k=row.size("k"),
            max=row.number("max_error"),
            rms=row.number("rms_error"),
            elements=elements,
            histogram=_histogram(row, elements) if "histogram" in row.fields else None,
        )
    )


def _histogram(row: Row, elements: int) -> dict[int, int]:
    counts = {}
    for entry in row.fields["histogram"].split():
        found = re.fullmatch(r"(-?\d{1,4}):(\d{1,18})", entry)
        if not found or int(found[1]) in counts:
            raise row.refuse("histogram", "EXPONENT:COUNT with spaces between, each exponent once")
        counts[int(found[1])] = int(found[2])
    if sum(counts.values()) > elements:
        raise row.refuse("histogram", f"at most {elements} elements in all")
    return counts


@dataclasses.dataclass(frozen=True)
class _Kind:
    command: str
    columns: tuple[str, ...]
    take: Callable[[File, Row], None]


def _columns(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


# Told apart by their columns; the first that fits.
_KINDS = (
    _Kind(
        "bench or tune on a GPU",
        _columns("name,m,n,k,scheme,kernel,median_us,mad_us,tflops,gbps,share_of_ceiling,peer,peer_us,ratio,verified"),
        _take_gpu,
    ),
    _Kind(
        "bench on a CPU",
        _columns("name,m,n,k,scheme,kernel,median_us,mad_us,gops,gbps,share_of_ceiling,verified"),
        _take_cpu,
    ),
    _Kind(
        "bench --quantize",
        _columns("name,m,k,scheme,source,median_us,mad_us,gbps,copy_us,share_of_copy,verified"),
        _take_quantizer,
    ),
    _Kind(
        "evaluate",
        _columns("scheme,n,k,count,m,kernel,bits_per_weight,sqnr_db,worst_error_over_bound,median_us,verified"),
        _take_evaluation,
    ),
    _Kind("accuracy", _columns("scheme,accuracy,data,m,n,k,max_error,rms_error,elements,verified"), _take_accuracy),
)


def _kind_of(path: str, columns: list[str]) -> _Kind:
    for kind in _KINDS:
        if set(kind.columns) <= set(columns):
            return kind
    nearest = max(_KINDS, key=lambda kind: len(set(kind.columns) & set(columns)) / len(kind.columns))
    missing = [column for column in nearest.columns if column not in columns]
    raise ReportError(
        f"{path}: needed the columns of a CSV of scalegemm bench, tune, evaluate or accuracy; given "
        f"{','.join(columns)} (for {nearest.command} these are missing: {', '.join(missing)})"
    )


def _text_of(path: str) -> str:
    try:
        return pathlib.Path(path).read_bytes().decode()
    except OSError as error:
        raise ReportError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ReportError(f"{path}: needed UTF-8 text; byte {error.start} is none") from None


# Of examples/minilm_embeddings.py, whose table is in README.md: nothing here plots it.
_EMBEDDINGS = {"scheme", "mean_cosine", "least_cosine"}


def read_file(path: str) -> Optional[File]:
    """The rows of a CSV file of scalegemm; rows whose proof failed are in `left_out`. None for a table of embeddings.

    Raises:
        ReportError: it cannot be read, or is not such a file.
    """
    lines = _text_of(path).splitlines()
    numbered = [(i, line) for i, line in enumerate(lines, 1) if line.strip() and not line.startswith("#")]
    if not numbered:
        raise ReportError(f"{path}: needed a line of columns and rows; given none")
    first = numbered[0][0]
    file = File(
        path, pathlib.PurePath(path).stem, [line.lstrip("# ") for line in lines[: first - 1] if line.startswith("#")]
    )
    columns = next(csv.reader([numbered[0][1]]))
    if _EMBEDDINGS <= set(columns):
        return None
    kind = _kind_of(path, columns)
    for number, line in numbered[1:]:
        where = f"{path}: line {number}"
        try:
            fields = next(csv.reader([line], strict=True))
        except csv.Error as error:
            raise ReportError(f"{where}: {error}") from None
        if len(fields) != len(columns):
            raise ReportError(f"{where}: needed {len(columns)} fields; given {len(fields)}")
        row = Row(where, dict(zip(columns, fields)))
        if row.verified():
            kind.take(file, row)
        else:
            shown = [row.fields[c] for c in ("name", "m", "n", "k", "scheme") if row.fields.get(c)]
            file.left_out.append(f"{path}: {' '.join(shown)}: not verified")
    if not file.timings and not file.errors and not file.qualities:
        raise ReportError(f"{path}: needed rows that were verified; given {len(file.left_out)} that were not")
    file.ceilings = _header_ceilings(file.header)
    if kind.take in (_take_cpu, _take_evaluation):
        _compare_with_baseline(file)
    return file


def read_files(paths: list[str]) -> list[File]:
    """read_file of each that there is something to show of, with names that tell them apart.

    Raises:
        ReportError: as read_file, and where nothing is left.
    """
    files = [file for path in paths if (file := read_file(path)) is not None]
    if not files:
        raise ReportError(f"{', '.join(paths)}: needed a CSV of scalegemm bench, tune, evaluate or accuracy")
    stems = [file.name for file in files]
    for file in files:
        if stems.count(file.name) > 1:
            file.name = str(pathlib.PurePath(file.path).with_suffix(""))
    return files


def _compare_with_baseline(file: File) -> None:
    """The f32 rows of the same file are what the others are compared with."""
    base = {(t.name, t.m, t.n, t.k): t.us for t in file.timings if t.scheme == BASELINE}
    file.timings = [
        dataclasses.replace(t, peer=BASELINE, ratio=base[key] / t.us)
        if t.scheme != BASELINE and (key := (t.name, t.m, t.n, t.k)) in base
        else t
        for t in file.timings
    ]


def _header_ceilings(header: list[str]) -> Optional[Ceilings]:
    """ "e4m3_promoted_n256_normal 1357423 GFLOP/s" and "cold read, ..., 2000 MB 432.1 us" of a GPU file."""
    rates: dict[str, float] = {}
    tbps = None
    for line in header:
        rate = re.fullmatch(r"(\w+?)(_promoted)?_n\d+_normal ([\d.]+) G(?:FL)?OP/s", line)
        if rate:
            kind = rate[1] + (" promoted" if rate[2] else "")
            rates[kind] = max(rates.get(kind, 0), float(rate[3]) / 1e3)
        read = re.search(r"cold read, .*?([\d.]+) MB ([\d.]+) us$", line)
        if read:
            tbps = float(read[1]) / float(read[2])
    return Ceilings(rates, tbps) if rates or tbps else None


_CPU_RATES = {"f32_fma": "f32", "bf16_dot": "bf16", "int8_dot": "int8"}


def read_ceilings(path: str, files: list[File]) -> None:
    """Gives CPU files the ceilings of `scalegemm info --ceilings --json`, where device and threads are theirs.

    Raises:
        ReportError: not such a file, or none of the files is of its device.
    """
    try:
        facts = json.loads(_text_of(path))
        model = facts["devices"][0]["model"]
        by_threads = {
            entry["threads"]: _cpu_ceilings(entry["rows"]) for entry in facts["ceilings"] if entry["device"] == "cpu"
        }
    except (ValueError, KeyError, IndexError, TypeError) as error:
        if isinstance(error, ReportError):
            raise
        raise ReportError(
            f"{path}: needed the JSON of scalegemm info --ceilings; {type(error).__name__}: {error}"
        ) from None
    used = False
    for file in files:
        device = file.fact("device")
        threads = re.search(r"threads (\d+)", device)
        if threads and device.startswith(f"{model},") and int(threads[1]) in by_threads:
            file.ceilings = by_threads[int(threads[1])]
            used = True
    if not used:
        raise ReportError(
            f"{path}: needed a CSV of {model} with {' or '.join(map(str, sorted(by_threads))) or 'no'} threads; given none"
        )


def _cpu_ceilings(rows: Any) -> Ceilings:
    values = {row["name"]: float(row["value"]) for row in rows}
    rates = {kind: values[name] / 1e3 for name, kind in _CPU_RATES.items() if name in values}
    return Ceilings(rates, values["read"] / 1e3 if "read" in values else None)


def add_peers(files: list[File], peers: File) -> None:
    """Compares with the times of another program: rows of the same name, sizes and scheme, whose kernel is the peer.

    They were not measured in turn with ours, which the peer's name says.

    Raises:
        ReportError: no row is one of the files'.
    """
    ours: dict[Any, list[tuple[File, Timing]]] = {}
    for file in files:
        seen = set()
        for t in file.timings:
            key = (t.name, t.m, t.n, t.k, t.scheme)
            if t.tflops and key not in seen:  # one row a shape, however many peers
                seen.add(key)
                ours.setdefault(key, []).append((file, t))
    used = False
    for row in peers.timings:
        for file, t in ours.get((row.name, row.m, row.n, row.k, row.scheme), []):
            peer = f"{row.kernel} (another run)"
            file.timings.append(dataclasses.replace(t, peer=peer, ratio=row.us / t.us))
            used = True
    if not used:
        raise ReportError(f"{peers.path}: needed rows of the shapes and schemes of the other files; given none")
