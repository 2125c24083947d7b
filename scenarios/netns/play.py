"""A tiny run of the real programs, in namespaces or on one loopback device: how long are its rounds?"""

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from protocol.link import LinkProfile
from scenarios.netns.spaces import Kind, Network, inside, network

PORT = 5555
PATIENCE_S = 900.0
SETTINGS = (
    "name=netns",
    "algorithm.local_steps=1",
    "algorithm.inner_batch=1",
    "algorithm.outer_batch=1",
    "onboarding.goals=[]",
    "onboarding.adapt_episodes=2",
    "onboarding.eval_episodes=2",
    "federation.lease_s=30",
)
"""Little work, so that a round's time is the network's; few-shot otherwise, parameters of 2.9 kB."""


def real(link: LinkProfile, kind: Kind, rounds: int, agents: int = 1, *settings: str) -> list[float]:
    """Seconds of each round over a real link; the first is left out, as connections are made in it."""
    with network(agents, link, kind) as made:
        return _play(made, rounds, settings)


def emulated(link: LinkProfile, rounds: int, agents: int = 1, *settings: str) -> list[float]:
    """The same over the loopback device, with the link of `protocol.link` in each agent."""
    values = msgspec.to_builtins(link)
    table = ", ".join(f"{key} = {value!r}" for key, value in values.items() if value)
    with network(agents, None, "relay") as made:
        return _play(made, rounds, (f"agents.0.link={{ {table} }}", *settings))


def _play(made: Network, rounds: int, settings: tuple[str, ...]) -> list[float]:
    goals = ",".join(map(str, range(len(made.agents))))
    every = (*SETTINGS, f"algorithm.rounds={rounds}", f'agents.0.goals="{goals}"', *settings)
    sets = [word for setting in every for word in ("--set", setting)]
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as stack:
        run = Path(scratch) / "run"
        bind = f"tcp://0.0.0.0:{PORT}"
        server = ["server", "--bind", bind, "--insecure", "--run-dir", str(run), *sets]
        programs = [stack.enter_context(_program(made.server, server))]
        for goal, (space, address) in enumerate(zip(made.agents, made.addresses, strict=True)):
            agent = [
                "agent",
                "--goal",
                str(goal),
                "--server",
                f"tcp://{address}:{PORT}",
                "--state-dir",
                scratch,
            ]
            programs.append(stack.enter_context(_program(space, agent)))
        for program in programs:
            _, said = program.communicate(timeout=PATIENCE_S)
            if program.returncode:
                raise RuntimeError(f"a program ended with code {program.returncode}: {said.strip()[-2000:]}")
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    late = [line["round"] for line in lines if line["missing"]]
    if late:
        raise RuntimeError(f"rounds {late} went on without an agent: their time is not the network's")
    return [float(line["seconds"]) for line in lines[1:]]


@contextlib.contextmanager
def _program(space: str, arguments: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A program in a namespace; it does not outlive the block."""
    command = inside(space, sys.executable, "-P", "-m", *arguments, "--log-level", "warning")
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
