"""python -m scalegemm.report FILE.csv... -o report.html"""

from __future__ import annotations

import argparse
import io
import os
import pathlib
import sys
from typing import Optional, Sequence

from ._files import ReportError, add_peers, read_ceilings, read_file, read_files
from ._page import page
from ._plots import plots
from ._style import MissingMatplotlib, load_matplotlib


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m scalegemm.report",
        description="One page of plots and tables from CSV files of scalegemm bench, tune, evaluate and accuracy.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE.csv")
    parser.add_argument("-o", "--output", metavar="FILE.html", help="the page; it needs no other file and no network")
    parser.add_argument("--png", metavar="DIR", help="also each plot as DIR/NAME.png")
    parser.add_argument("--title", default="scalegemm report")
    parser.add_argument(
        "--peers",
        action="append",
        default=[],
        metavar="FILE.csv",
        help="times of other programs (bench/peers) on the shapes and schemes of the files; may be repeated",
    )
    parser.add_argument(
        "--ceilings",
        action="append",
        default=[],
        metavar="FILE.json",
        help="scalegemm info --ceilings --json of the machine of CPU files; may be repeated",
    )
    return parser


def _write(path: pathlib.Path, data: bytes) -> None:
    """The file is complete or absent."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(data)
        beside.replace(path)
    except OSError as error:
        raise ReportError(f"{path}: cannot be written: {error.strerror}") from None
    finally:
        beside.unlink(missing_ok=True)


def _run(options: argparse.Namespace) -> None:
    load_matplotlib()
    files = read_files(options.files)
    for path in options.ceilings:
        read_ceilings(path, files)
    for path in options.peers:
        add_peers(files, read_file(path))
    drawn = plots(files)
    if options.output:
        _write(pathlib.Path(options.output), page(files, drawn, options.title).encode())
    if options.png:
        folder = pathlib.Path(options.png)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ReportError(f"{folder}: cannot be made: {error.strerror}") from None
        for plot in drawn:
            image = io.BytesIO()
            plot.figure.suptitle(plot.title, fontsize=11, fontweight="bold")  # the page has it as text
            plot.figure.savefig(image, format="png", dpi=150, facecolor="white")
            _write(folder / f"{plot.name}.png", image.getvalue())


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Exit codes are those of the command line: 1 a file is wrong, 2 the arguments are."""
    parser = _arguments()
    options = parser.parse_intermixed_args(arguments)
    if not options.output and not options.png:
        parser.error("needed -o FILE.html or --png DIR; given neither")
    try:
        _run(options)
    except (ReportError, MissingMatplotlib) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
