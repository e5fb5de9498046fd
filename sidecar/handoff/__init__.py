"""The local process's side of the hand-over: it takes connections as descriptors and serves the clients itself.

The format alone is docs/handoff.md, for any language, and in code ``handoff_format``. Here it is for Python, in two
forms with one core:

blocking    :class:`Receiver`, for programs without trio; needs the standard library alone
trio        ``serve``, for programs with it
handed      the connection as the first of these gives it
taking      from a packet to a connection: what both do, in its order
listening   the socket's file, and who may connect
connection  what is special about a socket that two processes hold
"""

from sidecar.handoff.blocking import Receiver, ReceiverClosed
from sidecar.handoff.handed import Handed, HandedSocket

__all__ = ["Handed", "HandedSocket", "Receiver", "ReceiverClosed"]
