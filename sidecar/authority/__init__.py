"""Where the assignment is read.

``source`` states what every authority offers; ``values`` is the one that stands in the configuration itself. The rest
of the package asks through :class:`~sidecar.authority.source.Authority` and never learns which one it is.
"""
