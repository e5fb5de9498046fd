"""The configuration file of a command.

Owns reading it from disk and handing text and environment to `sidecar.config`, which is pure. Called by ``run`` and
``check``.
"""

from __future__ import annotations

import os
from pathlib import Path

from sidecar.config import Config, ConfigurationError, Problem, load


def read_config(path: str) -> Config:
    """The configuration in the file at *path*, with this process's environment. Raises ConfigurationError."""
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        message = f"can't be read: {error.strerror}: give the path of a readable YAML file"
        raise ConfigurationError(path, [Problem(None, "", message)]) from error
    return load(text, file=path, environ=os.environ)
