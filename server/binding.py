"""The address of a server: checked, bound, and given back."""

import contextlib
from collections.abc import Iterator

from edge_fed.program.exit_codes import ExitCode, ProgramError
from protocol.errors import AddressError
from protocol.limits import Limits
from protocol.transport import Context, ServerSocket, is_loopback

HINT = "choose another --bind"


@contextlib.contextmanager
def bound(address: str, limits: Limits, shared: Context | None, *, insecure: bool) -> Iterator[ServerSocket]:
    """Binds an address for as long as it lasts.

    Args:
        address: What to bind; port 0: any free one.
        limits: Of the wire.
        shared: The context to bind in; None: one of its own.
        insecure: Allow an address that other machines can reach.

    Raises:
        ProgramError: The address is none, is busy, or is not allowed.
    """
    context = shared or Context()
    try:
        try:
            if not (insecure or is_loopback(address)):
                raise ProgramError(
                    ExitCode.ADDRESS,
                    f"{address} can be reached from other machines, and nothing protects it",
                    "bind tcp://127.0.0.1:5555 or ipc://PATH, or type --insecure on a network that you trust",
                )
            socket = ServerSocket.bind(context, address, limits)
        except AddressError as error:
            raise ProgramError(ExitCode.ADDRESS, str(error), HINT) from error
        try:
            yield socket
        finally:
            socket.close()
    finally:
        if shared is None:
            context.close()
