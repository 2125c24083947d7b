"""A life is lived: what `agent.life` decides is carried out in the environment, told, and kept on disk."""

from collections.abc import Callable

from agent import life_events as e
from agent.life import Life
from agent.life_store import LifeStore
from agent.life_worker import LifeWorker
from agent.news import News
from agent.stops import Signalled, Stops
from edge_fed.errors import EdgeFedError
from edge_fed.params import F8
from edge_fed.program.exit_codes import ExitCode, ProgramError


class Living:
    """Carries out what `agent.life` decides, and keeps it.

    Args:
        life: Decides.
        worker: Does.
        params: Of the policy at hand, ``[d]``.
        store: Keeps.
        tell: Keeps and shows the news.
        stops: What ends it.

    Attributes:
        params: Of the policy at hand, ``[d]``.
    """

    def __init__(
        self,
        life: Life,
        worker: LifeWorker,
        params: F8,
        store: LifeStore,
        tell: Callable[[News], None],
        stops: Stops,
    ) -> None:
        self.params = params
        self._life = life
        self._worker = worker
        self._store = store
        self._tell = tell
        self._stops = stops

    def run(self) -> ExitCode:
        """Lives to the end, or to a signal.

        Raises:
            ProgramError: Environment or policy failed, or the state cannot be kept.
        """
        try:
            return self._live()
        except Signalled:
            return ExitCode(128 + self._stops.number)
        except EdgeFedError as error:
            why = f"after {self._life.state.episode} episodes: {error}"
            raise ProgramError(ExitCode.FAILED, why) from error

    def _live(self) -> ExitCode:
        event: e.Event = e.Started()
        while True:
            work = self._obey(self._life.handle(event))
            # What is learned from a batch must not be kept without what was learned: both or neither.
            if not isinstance(work, e.Learn):
                self._store.put(self.params, self._life.state)
                if work is None:
                    return ExitCode.OK
                self._stops.pause(0.0)
            state = self._life.state
            event = self._worker.perform(work, self.params, state.episode, changed=state.changed)
            self._took_part(event)

    def _obey(self, commands: list[e.Command]) -> e.Work | None:
        """Carries out all but the last, and returns that: what to do next; None: nothing."""
        for command in commands:
            match command:
                case e.Tell():
                    self._tell(command.news)
                case e.Take():
                    self.params = self._worker.candidate
                case e.End():
                    return None
                case _:
                    return command
        raise AssertionError("a life that neither works nor ends")

    def _took_part(self, event: e.Event) -> None:
        """Notes the return of a batch, and goes on with a step that was taken."""
        if isinstance(event, e.Acted):
            episode = self._life.state.episode + event.returns.size
            mean = float(event.returns.mean())
            line = {"episode": episode, "what": "batch", "episodes": event.returns.size, "return": mean}
            self._store.note(line if event.overridden is None else {**line, "overridden": event.overridden})
        if isinstance(event, e.Learned) and event.factor:
            self.params = self._worker.candidate
