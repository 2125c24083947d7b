"""The address of a server: checked, bound, and given back."""

import contextlib
from collections.abc import Iterator

from edge_fed.program.exit_codes import ExitCode, ProgramError
from protocol.errors import AddressError, LibraryTooOld
from protocol.limits import Limits
from protocol.transport import Context, Guard, ServerSocket, is_loopback

HINT = "choose another --bind"
DEFAULT_BIND = "tcp://127.0.0.1:5555"


@contextlib.contextmanager
def bound(
    address: str, limits: Limits, shared: Context | None, *, insecure: bool, guard: Guard | None = None
) -> Iterator[ServerSocket]:
    """Binds an address for as long as it lasts.

    Args:
        address: What to bind; port 0: any free one.
        limits: Of the wire.
        shared: The context to bind in; None: one of its own.
        insecure: Allow an address that other machines can reach, without keys.
        guard: Lets in none but the holders of known keys, from wherever.

    Raises:
        ProgramError: The address is none, is busy, or is not allowed; or the installed libzmq is too old.
    """
    try:
        context = shared or Context()
    except LibraryTooOld as error:
        raise ProgramError(ExitCode.USAGE, str(error)) from error
    try:
        try:
            if not (guard or insecure or is_loopback(address)):
                raise ProgramError(
                    ExitCode.ADDRESS,
                    f"{address} can be reached from other machines, and nothing protects it",
                    "make keys (python -m server keygen DIR --agents 0-8) and add --keys DIR; or bind "
                    "tcp://127.0.0.1:5555 or ipc://PATH; or type --insecure on a network that you trust",
                )
            socket = ServerSocket.bind(context, address, limits, guard)
        except AddressError as error:
            raise ProgramError(ExitCode.ADDRESS, str(error), HINT) from error
        try:
            yield socket
        finally:
            socket.close()
    finally:
        if shared is None:
            context.close()
