"""``sidecar run``: the sidecar itself.

Owns the order in which a process comes to be one: configuration first, then the log, then the rest (``app``).
"""

from __future__ import annotations

import argparse
import sys
from functools import partial


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to *subparsers*."""
    parser = subparsers.add_parser(
        "run", help="run the sidecar", description="Run the sidecar until SIGTERM or SIGINT; a second one cuts at once."
    )
    parser.add_argument("config", metavar="CONFIG", help="the YAML file")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run until a signal ends it. Raises ConfigurationError, StartError."""
    import trio

    from sidecar import app
    from sidecar.cli.configuration import read_config
    from sidecar.config.explain import explain
    from sidecar.log import LogSwitch, build_logger

    config = read_config(options.config)
    switch = LogSwitch(sys.stderr)
    logger = build_logger(config.log.format, config.log.level, sys.stderr, switch)
    for remark in explain(config):
        if remark.warning:
            logger.warning("configuration", about=remark.about, remark=remark.text)
        elif remark.about == "assignment":
            logger.info("configuration", about=remark.about, remark=remark.text)
    return trio.run(partial(app.run, config, logger, reread=partial(read_config, options.config), switch=switch))
