"""Where the assignment is read.

``source`` states what a source offers, and what the flow sees of any; ``values`` is the one that stands in the
configuration, ``files`` those that the kubelet mounts. ``front`` stands before each of them: ``reads`` shares reads,
``newest`` keeps their order. The rest of the package asks through :class:`~sidecar.authority.source.Authority` and
never learns which source it is.
"""
