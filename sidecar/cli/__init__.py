"""The commands of ``sidecar``, a module each; ``main`` is their root."""
