"""The configuration: from one YAML file and the environment to a `Config`, or to everything that is wrong with it.

Pure: text and environment are passed in. Data moves one way:

    parsing       YAML text to a `document`: a tree that remembers lines and columns
    expand        variables filled in
    reading       tree to `model`, the file as pydantic types; with it `assignment_model` and `listener_model`, and
                  below these `section`, `fields`, `addresses`, `pod_name`, `quantities`
    rules         contradictions, by subject: `slot_rules`, `assignment_rules`, `listener_rules`, `time_rules`; they
                  judge a `case`
    availability  what this version doesn't do yet
    effective     `Config`: what the rest of the program sees
    loading       these steps in their order

Beside them: `problems` (how all of that is told), `explain` (what a configuration stops and what it doesn't), `schema`
(the JSON Schema for editors).
"""

from sidecar.admission import Requirement
from sidecar.config.addresses import Handoff, HostPort, Network, UnixPath
from sidecar.config.effective import Assignment, Config, Listener
from sidecar.config.loading import load
from sidecar.config.problems import ConfigurationError, Problem
from sidecar.config.tls import Tls

__all__ = [
    "Assignment",
    "Config",
    "ConfigurationError",
    "Handoff",
    "HostPort",
    "Listener",
    "Network",
    "Problem",
    "Requirement",
    "Tls",
    "UnixPath",
    "load",
]
