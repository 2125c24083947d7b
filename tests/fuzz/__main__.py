"""``python -m tests.fuzz TARGET --seconds S``: coverage-guided fuzzing of one target with atheris.

Inputs that break a property are not the end: each new one is kept once, minimised, and reported at the end.
``python -m tests.fuzz seeds`` writes the committed corpus anew.
"""

import argparse
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
CORPUS, FINDINGS = HERE / "corpus", HERE / "findings"
ROOT = HERE.parents[1]
REAL = {"scenario": ROOT / "scenarios/library", "study": ROOT / "scenarios/paper/studies"}
"""Files of the repository that a target starts from as well."""
PACKAGES = ["protocol", "edge_fed", "scenarios", "server", "agent", "tests.fuzz.targets"]
MOST_FINDINGS = 200  # of one run
EXIT_FINDINGS, EXIT_MISSING = 1, 2


def main(arguments: list[str]) -> int:
    """Fuzzes a target, or writes the seeds; 0: nothing was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("target", help="one of the targets, or seeds")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--work", type=Path, help="keep what is learned here (default: a temporary folder)")
    options = parser.parse_args(arguments)
    if options.target == "seeds":
        return _write_seeds()
    try:
        import atheris
    except ImportError:
        print("atheris is not installed; install it with: pip install -e '.[fuzz]'", file=sys.stderr)
        return EXIT_MISSING
    with atheris.instrument_imports(include=PACKAGES, enable_loader_override=False):
        from tests.fuzz.targets import TARGETS
    if options.target not in TARGETS:
        parser.error(f"unknown target {options.target!r}; known: {', '.join(TARGETS)}")
    if options.work:
        options.work.mkdir(parents=True, exist_ok=True)
        return _fuzz(options.target, options.seconds, options.work)
    with tempfile.TemporaryDirectory(prefix="edge-fed-fuzz-") as work:
        return _fuzz(options.target, options.seconds, Path(work))


def _fuzz(name: str, seconds: int, work: Path) -> int:
    """The fuzzer ends the process, so it runs in a child; what it found is read from its folder."""
    import os

    import atheris

    from tests.fuzz.catch import finding, minimise
    from tests.fuzz.targets import TARGETS

    target, caught = TARGETS[name], work / "caught"
    learned = work / "learned"
    for folder in (caught, learned):
        folder.mkdir(exist_ok=True)
    child = os.fork()
    if child == 0:
        seen: set[str] = set()

        def one(data: bytes) -> None:
            found = finding(target, data)
            if found is not None and found not in seen and len(seen) < MOST_FINDINGS:
                seen.add(found)
                (caught / f"{len(seen):03}").write_bytes(data)
                print(f"caught {len(seen):03}: {found}", flush=True)

        folders = [CORPUS / name, *([REAL[name]] if name in REAL else [])]
        seeds = [str(folder) for folder in folders if folder.is_dir()]
        flags = [f"-max_total_time={seconds}", "-print_final_stats=1", "-timeout=30", "-rss_limit_mb=3000",
                 "-max_len=8192", f"-artifact_prefix={caught}/fatal-", "-verbosity=0"]  # fmt: skip
        atheris.Setup([sys.argv[0], *flags, str(learned), *seeds], one)
        atheris.Fuzz()
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    print(f"{name}: libFuzzer ended with {os.waitstatus_to_exitcode(status)}")
    found: dict[str, bytes] = {}
    for path in sorted(caught.iterdir()):
        data = path.read_bytes()
        if path.name.startswith("fatal-"):
            found[f"{path.name} (took too long, or too much memory)"] = data
        elif (what := finding(target, data)) is None:
            print(f"{path.name} does not break anything when it is tried again: {data[:100]!r}")
        else:
            found.setdefault(what, minimise(target, data))
    for number, (what, data) in enumerate(found.items(), start=1):
        place = FINDINGS / name / f"new-{number}"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        print(f"FINDING {what}: {len(data)} bytes in {place}: {data[:100]!r}")
    return EXIT_FINDINGS if found else 0


def _write_seeds() -> int:
    from tests.fuzz.seeds import file_name, seeds

    for target, contents in seeds().items():
        folder = CORPUS / target
        folder.mkdir(parents=True, exist_ok=True)
        for title, content in contents.items():
            (folder / file_name(title)).write_bytes(content)
        print(f"{target}: {len(contents)} seeds, {sum(map(len, contents.values()))} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
