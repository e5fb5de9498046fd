"""docs/tls.md says what the code does: details and alerts of each refusal, the log's lines, and what is configured."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from configurations import IDENTITY, loaded

from sidecar.presented import Wrong
from sidecar.reasons import TlsFailure
from sidecar.tls.contexts import MAX_DEPTH

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "tls.md").read_text()
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()
TRIED = (ROOT / "tests" / "acceptance" / "test_tls.py").read_text()


def section(title: str) -> str:
    """What stands below the heading that begins with *title*, up to the next one."""
    (found,) = re.findall(rf"^#+ {re.escape(title)}.*\n((?:(?!#).*\n)*)", PAGE, re.MULTILINE)
    return str(found)


def rows(title: str) -> list[str]:
    """The first cells, in quotes of code, of the table below *title*."""
    cells = re.findall(r"^\| (`.*?) \|", section(title), re.MULTILINE)
    return [word for cell in cells for word in re.findall(r"`([^`]+)`", cell)]


def test_every_cause_of_a_failed_handshake_is_explained_and_no_other() -> None:
    assert sorted(rows("`tls_failed`")) == sorted(TlsFailure)


def test_every_fault_of_a_name_is_explained_and_no_other() -> None:
    assert sorted(rows("`peer_not_allowed`")) == sorted(Wrong)


@pytest.mark.parametrize(("cause", "alert"), re.findall(r'^    \("(\w+)", .*, "([a-z ]+)"\),$', TRIED, re.MULTILINE))
def test_the_alert_that_a_cause_has_is_the_one_that_clients_get(cause: str, alert: str) -> None:
    (row,) = (line for line in section("`tls_failed`").splitlines() if line.startswith(f"| `{cause}`"))
    assert alert in row.split("|")[-2]


@pytest.mark.parametrize("text", re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
def test_each_snippet_is_a_configuration_once_it_is_said_whose(text: str) -> None:
    whole = {"identity": yaml.safe_load(IDENTITY), "assignment": {"instance": "uid-1"}, **yaml.safe_load(text)}
    whole["listeners"] = [{"tls": "none", **each} if "tls" not in whole else each for each in whole["listeners"]]
    assert loaded(yaml.safe_dump(whole)).listeners


def test_every_line_about_certificates_is_named_here_and_by_operations() -> None:
    source = (ROOT / "sidecar" / "certificates.py").read_text()
    events = set(re.findall(r'"(certificate_\w+)"', source))
    assert events == {"certificate_served", "certificate_refused", "certificate_waits"}
    for page in (PAGE, OPERATIONS):
        assert {event for event in events if f"`{event}`" in page} == events


def test_the_depth_of_a_chain_is_the_one_that_is_verified() -> None:
    assert f"At most {MAX_DEPTH} CAs" in PAGE


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#]+)", PAGE))
def test_links_lead_somewhere(target: str) -> None:
    assert (ROOT / "docs" / target).exists()
