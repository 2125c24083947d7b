"""What soaks showed, as Markdown. Pure."""

from collections.abc import Iterator
from typing import Any

from scenarios.bench.trend import CONSTANT, Trend


def table(results: dict[str, dict[str, Any]]) -> Iterator[str]:
    """The results as Markdown."""
    for name, result in results.items():
        head = f"**{name}**: {result['meaning']}; {result['agents']} agents, {result['rounds']} rounds"
        counts = {key.replace("_", " "): result[key] for key in result if key.endswith(("ed", "killed"))}
        deaths = "".join(f", {value} {key}" for key, value in counts.items())
        yield f"{head}, {result['seconds']:.0f} s{deaths}"
        yield ""
        if too_short := result["too_short"]:
            yield f"too few rounds to tell: {', '.join(too_short)}"
            yield ""
        if not result["trends"]:
            continue
        heads = ("program", "rounds", "RSS, MiB", "bytes per round", "bound", *CONSTANT, "verdict")
        yield "| " + " | ".join(heads) + " |"
        yield "|---" * len(heads) + "|"
        yield from (_row(found) for found in result["trends"])
        yield ""


def _row(found: Trend) -> str:
    held = [f"{first} .. {last}" for first, last, *_ in found.constant.values()]
    cells = (
        found.program,
        f"{found.rounds[0]} .. {found.rounds[1]}",
        f"{found.rss_mib[0]:.1f} .. {found.rss_mib[1]:.1f}",
        f"{found.bytes_per_round:.0f}",
        f"{found.bound:.0f}",
        *held,
        found.verdict,
    )
    return "| " + " | ".join(cells) + " |"
