"""`python -m scenarios.netns`: the emulated link against a real one; needs root. See docs/network.md."""

import argparse
import json
import signal
import statistics
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

import msgspec

from edge_fed.profiles import PRESETS
from protocol.link import LinkProfile
from scenarios.netns.play import emulated, real
from scenarios.netns.spaces import Kind, unavailable

LARGE = "policy.args={ hidden = [256, 256] }"
LINKS: dict[str, dict[str, float]] = {
    "50 ms": {"latency_s": 0.05},
    "100 ms": {"latency_s": 0.1},
    "50 ms, 1 Mbit/s": {"latency_s": 0.05, "bandwidth_bps": 1e6},
    "50 ms, 64 kbit/s": {"latency_s": 0.05, "bandwidth_bps": 64e3},
    "50 ms, 5 % loss": {"latency_s": 0.05, "loss": 0.05},
    **{name: PRESETS[name] for name in ("wifi", "lte")},
}


def main(arguments: list[str] | None = None) -> int:
    """Measures and prints a table; returns the exit code."""
    p = argparse.ArgumentParser(prog="python -m scenarios.netns", description=__doc__)
    p.add_argument(
        "--kind", choices=("netem", "relay"), help="default: netem if this kernel has it, else relay"
    )
    p.add_argument("--rounds", type=int, default=21, help="of each run (21); the first is left out")
    p.add_argument("--only", metavar="LINK", choices=tuple(LINKS), help="one of them: " + ", ".join(LINKS))
    p.add_argument("--json", action="store_true", help="one JSON object per line")
    chosen = p.parse_args(arguments)
    signal.signal(signal.SIGTERM, _terminated)  # so that namespaces are removed
    kind: Kind = chosen.kind or ("relay" if unavailable("netem") else "netem")
    if why := unavailable(kind):
        print(f"error: {why}", file=sys.stderr)
        return 2
    for found in _rows(kind, chosen.rounds, chosen.only):
        print(json.dumps(found) if chosen.json else _line(found), flush=True)
    return 0


def _rows(kind: Kind, rounds: int, only: str | None) -> Iterator[dict[str, Any]]:
    for name in [only] if only else LINKS:
        yield row(name, kind, rounds)
    if not only:
        yield row("lte", kind, rounds, LARGE)
        if not unavailable("tbf"):
            yield row("50 ms, 1 Mbit/s", "tbf", rounds, LARGE, latency=False)


def row(name: str, kind: Kind, rounds: int, *settings: str, latency: bool = True) -> dict[str, Any]:
    """Both medians over the rounds, and means (losses are seen there), in seconds."""
    values = LINKS[name] if latency else {**LINKS[name], "latency_s": 0.0}
    link = msgspec.convert(values, LinkProfile)
    ours, theirs = emulated(link, rounds, 1, *settings), real(link, kind, rounds, 1, *settings)
    found = {"link": name, "kind": kind, "settings": list(settings), "rounds": len(ours)}
    for what, seconds in (("emulated", ours), ("real", theirs)):
        found |= {f"{what}_median_s": statistics.median(seconds), f"{what}_mean_s": statistics.fmean(seconds)}
    return found


def _line(row: dict[str, Any]) -> str:
    medians = [1000 * row[f"{what}_median_s"] for what in ("emulated", "real")]
    means = [1000 * row[f"{what}_mean_s"] for what in ("emulated", "real")]
    large = ", large policy" if row["settings"] else ""
    return (
        f"{row['link'] + large:32} {row['kind']:6} ms per round, emulated and real: "
        f"median {medians[0]:8.1f} {medians[1]:8.1f}   mean {means[0]:8.1f} {means[1]:8.1f}"
    )


def _terminated(_number: int, _frame: object) -> NoReturn:
    raise SystemExit(143)


if __name__ == "__main__":
    sys.exit(main())
