"""Private updates: an agent clips its own update and adds noise before anything leaves it.

    u_i = delta_i min(1, C / ||delta_i||)            clip_norm C, Euclidean, over the whole flat vector
    sent_i = u_i + z C n,   n ~ N(0, I_d)            noise_multiplier z: standard deviation z C per coordinate

This is the Gaussian mechanism (Dwork and Roth 2014, appendix A) in the local model: the server is not trusted
to add the noise, and nothing is gained from averaging or sampling in what is stated, because the server sees
each update and knows whose it is. Any two data sets of one agent (its environment, its trajectories, its
agent state) give clipped updates at most 2 C apart, so that one update has noise z / 2 relative to its
sensitivity; `edge_fed.program.accountant` composes an agent's updates and states (epsilon, delta).

The noise is added to what was clipped; noise inside the clipping would itself be clipped, and no guarantee be
left. What else an update would say of the data is kept back: with noise its metrics are empty, and an update
that cannot be computed is sent as zero plus noise, because the refusal would be an unprotected answer. The
count of trajectories is one that the settings fix. c_i of a correction is computed from what was sent: so
sum_i c_i = n c still holds, and c_i adds nothing to what the server knows.

The noise comes from SHAKE-256 keyed by a secret of the agent, so that an agent that restarts and computes an
update again sends the same bits, not a second noisy copy. NumPy's generators would not do, however they are
seeded: they are made to look random, not to resist; from enough outputs their state can be computed, and with
it all noise. A stream keyed by the run seed could be subtracted by anybody who reads the configuration.

Not defended: the low bits of a floating-point sum say something about its terms (Mironov 2012); the largest
draw is 8.6 standard deviations; how long an update takes.
"""

import hashlib
import math
from collections.abc import Callable, Mapping

import msgspec
import numpy as np

from edge_fed.config import Privacy
from edge_fed.errors import EdgeFedError, NonFinite
from edge_fed.federated.control_variate import OWN, correction, own_after
from edge_fed.federated.local_update import AgentState, LocalUpdate, initial_state, local_update
from edge_fed.learner import Learner
from edge_fed.params import F8, little_endian
from edge_fed.seeding import Purpose, stream

SECRET_BYTES = 32
_DOMAIN = b"edge_fed private noise 1"


class Unprotected(EdgeFedError):
    """Private noise is asked for and cannot be added as promised: nothing may be sent."""


def private_update(
    task: Learner,
    params: F8,
    state: AgentState,
    seed: int,
    round_: int,
    progress: Callable[[int], None],
    control: F8 | None = None,
    *,
    privacy: Privacy,
    secret: bytes | None,
) -> LocalUpdate:
    """What an agent sends: its `local_update`, clipped and with noise as ``privacy`` says.

    With ``clip_norm = "off"`` it is `local_update` and not one operation more.

    Args:
        task: See `local_update`; so are the next six.
        params: theta of the round, ``[d]``.
        state: Agent state before the round.
        seed: Run seed.
        round_: 1..K.
        progress: Called before each local step.
        control: c of the round, ``[d]``.
        privacy: The run's section.
        secret: 32 bytes that only this agent has, and only for this run; None: there is no noise to add.

    Raises:
        NonFinite: As `local_update`, without noise.
        Unprotected: There is noise to add, and no secret or no clip norm.
    """
    if privacy.clip_norm == "off":
        if privacy.noisy:  # `check_run` refuses it; who leads the run need not have called that
            raise Unprotected(f"agent {task.agent}, round {round_}: noise without a clip norm hides nothing")
        return local_update(task, params, state, seed, round_, progress, control)
    if privacy.noisy and (secret is None or len(secret) != SECRET_BYTES):
        raise Unprotected(f"agent {task.agent}, round {round_}: private noise needs the agent's own secret")
    try:
        update = local_update(task, params, state, seed, round_, progress, control)
    except NonFinite:
        if not privacy.noisy:
            raise
        update = LocalUpdate(np.zeros_like(params), _planned(task, seed, round_, control), {}, state)
    sent, length = clip(update.delta, privacy.clip_norm)
    metrics = {**update.metrics, "update_norm": length, "clipped": float(length > privacy.clip_norm)}
    if privacy.noisy:
        assert secret is not None
        arrays = {"params": params, "sent": sent, **({} if control is None else {"control": control})}
        about = _question(task, seed, round_, privacy, arrays, state)
        scale = privacy.noise_multiplier * privacy.clip_norm
        sent = sent + scale * gaussian(secret, about, sent.size)
        metrics = {}
    after = update.state
    if OWN in after:
        shift = correction(task.settings, state, control, params.size)
        assert shift is not None
        after = {**after, OWN: own_after(task.settings, sent, shift)}
    return LocalUpdate(sent, update.trajectories, metrics, after)


def clip(delta: F8, bound: float) -> tuple[F8, float]:
    """``delta`` ``[d]`` with a Euclidean norm of at most ``bound``, and the norm it had.

    A shorter one is returned as it is, to the bit.
    """
    largest = float(np.abs(delta).max(initial=0.0))
    if largest == 0.0:
        return delta, 0.0
    unit = delta / largest  # squares of huge entries would overflow, those of tiny ones vanish
    length = math.sqrt(float(unit @ unit))
    if largest * length <= bound:
        return delta, largest * length
    return unit * (bound / length), largest * length


def gaussian(secret: bytes, about: bytes, count: int) -> F8:
    """Standard normal draws, ``[count]``: equal for equal (secret, about), else independent of each other.

    Box and Muller 1958 on 53-bit uniforms of SHAKE-256(domain, secret, about). To whoever does not know the
    secret the stream cannot be told from true randomness (a keyed sponge, FIPS 202).

    Args:
        secret: Key of fixed length.
        about: What the draws are for; its hash is of fixed length.
        count: How many.
    """
    pairs = (count + 1) // 2
    key = _DOMAIN + secret + hashlib.sha256(about).digest()
    words = np.frombuffer(hashlib.shake_256(key).digest(16 * pairs), dtype="<u8").astype(np.uint64)
    uniform = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53  # [0, 1)
    radius = np.sqrt(-2.0 * np.log1p(-uniform[:pairs]))  # log of (0, 1]
    angle = (2.0 * np.pi) * uniform[pairs:]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count]


def _question(
    task: Learner, seed: int, round_: int, privacy: Privacy, arrays: Mapping[str, F8], state: AgentState
) -> bytes:
    """All that an update was computed from, and the update: noise is used twice for the same bits alone.

    A server that asks for one round twice, with other parameters or another noise multiplier, would otherwise
    get two updates with the same noise, and could compute both without any. The parts have lengths, so that
    none runs into the next.
    """
    settings = [task.agent, round_, seed, privacy, task.settings]
    digest = hashlib.sha256(msgspec.json.encode(settings))
    for name, array in [*sorted(arrays.items()), *((f"state {key}", state[key]) for key in sorted(state))]:
        digest.update(f"|{name} {array.shape}|".encode())
        digest.update(little_endian(array).data)
    return digest.digest()


def _planned(task: Learner, seed: int, round_: int, control: F8 | None) -> int:
    """Trajectories of a round whose steps all succeed: counted by computing this one untrained."""
    aside = task.fresh()
    untrained = task.initial(stream(seed, task.agent, 0, 0, Purpose.INITIAL))
    done = local_update(aside, untrained, initial_state(task), seed, round_, lambda _t: None, control)
    return done.trajectories
