"""The configuration's words become the source and the floor that they name."""

import pytest

from sidecar.assignment import Assignment
from sidecar.authority.files import Files
from sidecar.authority.values import Values
from sidecar.config import load
from sidecar.errors import StartError
from sidecar.floor import FloorFile, FloorInMemory
from sidecar.identity import Generation, Instance
from sidecar.opening import open_floor, open_source


def config(assignment="{instance: u-1, generation: 7}", more=""):
    text = f"""
identity: {{cluster: prod-eu, replica: replica-a, ordinal: 2}}
assignment: {assignment}
listeners: [{{name: compute, listen: ":7101", upstream: "127.0.0.1:2101", tls: none}}]
{more}
"""
    return load(text, file="test.yaml", environ={})


async def test_values_are_a_source_that_never_changes():
    assert open_source(config()) == Values(Assignment(Generation(7), Instance("u-1")))


async def test_one_file_is_enough_to_look_again(tmp_path):
    path = tmp_path / "generation"
    path.write_text("8\n")
    source = open_source(config(f"{{instance: u-1, generation: {{file: {path}}}}}"))
    assert isinstance(source, Files)
    assert await source.read() == Assignment(Generation(8), Instance("u-1"))


async def test_without_a_directory_the_floor_lives_in_memory():
    assert isinstance(open_floor(config()), FloorInMemory)


async def test_a_directory_keeps_the_floor_for_one_process(tmp_path):
    settings = config(more=f"state_dir: {tmp_path}/state")
    floor = open_floor(settings)
    assert isinstance(floor, FloorFile)
    with pytest.raises(StartError):
        open_floor(settings)
    floor.close()
    open_floor(settings).close()
