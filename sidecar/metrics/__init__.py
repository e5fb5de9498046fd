"""The numbers that the sidecar shows, and nothing of what they count.

``listener`` has those of each listener, ``process`` all others and :class:`Metrics`, which holds everything; ``labels``
has the words of their labels, ``children`` and ``tallies`` make the series. docs/metrics.md lists them all.

Every series exists from the start, and label values come only from closed enums and the configuration, so that nothing
a stranger sends can make a new one. What may be known of a peer goes to the log.
"""

from sidecar.metrics.labels import AcceptError, Basis, Outcome, ReadResult, Stage, State, TlsReload
from sidecar.metrics.listener import ListenerMetrics
from sidecar.metrics.process import Metrics

__all__ = ["AcceptError", "Basis", "ListenerMetrics", "Metrics", "Outcome", "ReadResult", "Stage", "State", "TlsReload"]
