"""``python -m scenarios campaign``: random faults on real programs, judged; a bad seed says how to replay."""

import argparse
import contextlib
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

import msgspec

from edge_fed.errors import ConfigError, Fault
from scenarios.campaign.checks import judge
from scenarios.campaign.draw import draw
from scenarios.campaign.evidence import read
from scenarios.campaign.pool import run_all
from scenarios.campaign.sequence import run_sequence
from scenarios.campaign.verdict import MEANINGS, Verdict, as_json, counts_of, in_all, replay
from scenarios.report import output, table_of
from scenarios.study.progress import open_bar
from scenarios.study.seeds import parse_seeds

SEQUENCES = 20


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The flags."""
    which = command.add_mutually_exclusive_group()
    which.add_argument("--sequences", type=int, default=SEQUENCES, metavar="N",
                       help=f"so many, with the seeds from 0 on; default: {SEQUENCES}")  # fmt: skip
    which.add_argument("--seed", type=int, metavar="S", help="one sequence, in this process: a replay")
    which.add_argument("--seeds", metavar="RANGES", help="e.g. 1000-1199")
    command.add_argument("--jobs", type=int, default=1, metavar="N", help="sequences at a time; default: 1")
    command.add_argument("--keep", type=Path, metavar="DIR",
                         help="keep all run folders there; default: only those with findings")  # fmt: skip
    counts = [fill(meaning, 100, initial_indent=f"  {name}: ", subsequent_indent="      ")
              for name, meaning in MEANINGS.items()]  # fmt: skip
    command.epilog = "\n".join(
        ["counts of the report, sums over all sequences:", *counts, "", command.epilog or ""]
    )
    command.formatter_class = argparse.RawDescriptionHelpFormatter


def campaign(options: argparse.Namespace) -> int:
    """Runs sequences; returns 1 if a checker has found something.

    Raises:
        ConfigError: A flag is wrong.
    """
    began = time.monotonic()
    seeds = _seeds(options)
    folder = options.keep or Path(tempfile.mkdtemp(prefix="edge-fed-campaign-"))
    if options.seed is not None:
        verdicts = [run_one(options.seed, folder)]
    else:
        with open_bar("campaign") as report:
            verdicts = run_all(seeds, folder, options.jobs, report)
    verdicts = [_tidied(verdict, folder, keep=options.keep is not None) for verdict in verdicts]
    with contextlib.suppress(OSError):  # it holds the folders of those with findings
        folder.rmdir()
    _print(verdicts, time.monotonic() - began, options)
    return 1 if any(verdict.findings for verdict in verdicts) else 0


def run_one(seed: int, folder: Path) -> Verdict:
    """One sequence in this process; its verdict lies beside its run folder."""
    began, place = time.monotonic(), folder.absolute() / f"seed-{seed}"
    place.mkdir(parents=True, exist_ok=True)
    (place / "verdict.json").unlink(missing_ok=True)
    run_sequence(draw(seed), place / "run")
    evidence = read(place / "run")
    code, problem = evidence.end
    verdict = Verdict(
        seed=seed,
        counts=counts_of(evidence),
        end={0: "finished", 3: "too few agents"}.get(code, problem),
        findings=judge(evidence),
        seconds=time.monotonic() - began,
    )
    (place / "verdict.json").write_bytes(msgspec.json.format(msgspec.json.encode(verdict)))
    return verdict


def _seeds(options: argparse.Namespace) -> Sequence[int]:
    faults = []
    if options.jobs < 1:
        faults.append(Fault("--jobs", f"is {options.jobs}", "at least 1"))
    if options.sequences < 1:
        faults.append(Fault("--sequences", f"is {options.sequences}", "at least 1"))
    if faults:
        raise ConfigError(faults, "command line")
    if options.seed is not None:
        return parse_seeds(str(options.seed), "--seed", "command line")
    if options.seeds:
        return parse_seeds(options.seeds, "--seeds", "command line")
    return range(options.sequences)


def _tidied(verdict: Verdict, folder: Path, *, keep: bool) -> Verdict:
    """Removes the run folder of a sequence in which nothing was found, unless all are kept."""
    place = folder / f"seed-{verdict.seed}"
    if keep or verdict.findings:
        return msgspec.structs.replace(verdict, folder=str(place))
    shutil.rmtree(place, ignore_errors=True)
    return verdict


def _print(verdicts: Sequence[Verdict], seconds: float, options: argparse.Namespace) -> None:
    if options.json:
        print(json.dumps(as_json(verdicts, seconds)))
        return
    console = output()
    rows = [(name, str(count)) for name, count in in_all(verdicts).items()]
    console.print(table_of(f"{len(verdicts)} sequences in {seconds:.0f} s", ("what", "count"), rows))
    slowest = max(verdicts, key=lambda verdict: verdict.seconds)
    console.print(f"slowest: seed {slowest.seed}, {slowest.seconds:.1f} s")
    for verdict in verdicts:
        for finding in verdict.findings:
            print(f"seed {verdict.seed}: {finding.check}: {finding.text}")
        if verdict.findings:
            print(f"  in {verdict.folder}; again: {replay(verdict.seed)}", file=sys.stdout)
    bad = sum(bool(verdict.findings) for verdict in verdicts)
    console.print(f"{bad} of {len(verdicts)} sequences with findings" if bad else "nothing was found")
