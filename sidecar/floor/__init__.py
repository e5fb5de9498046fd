"""The floor: the highest generation and epochs that this sidecar has acted on, kept over restarts.

Without it, a sidecar that was just restarted would take an authority, or a controller, from before the restart for
current. A floor is written before it is acted on, and only ever rises.

``record`` is what is kept, as values and as bytes; ``state_dir`` the locked directory that keeps it; ``keeper`` puts
both together, and has a keeper for where there is no directory. Knows nothing of claims and verdicts: ``app`` opens one
and the flow raises it.
"""

from sidecar.floor.keeper import FloorFile, FloorInMemory, FloorKeeper
from sidecar.floor.record import BelowFloor, FloorDamaged, FloorRecord, FloorUnavailable, StoredFloor

__all__ = [
    "BelowFloor",
    "FloorDamaged",
    "FloorFile",
    "FloorInMemory",
    "FloorKeeper",
    "FloorRecord",
    "FloorUnavailable",
    "StoredFloor",
]
