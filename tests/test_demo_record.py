from dataclasses import replace

from sidecar.demo.record import Record
from sidecar.identity import ControllerName, Generation, Identity, Instance
from sidecar.preface.claim import Claim

RECORD = Record(Identity("demo", "replica-a", 2), Generation(7), Instance("pod-uid"), "127.0.0.4")


def test_a_claim_states_the_whole_record_and_who_dials():
    claim = RECORD.claim(ControllerName("c-1"))
    assert claim == Claim(
        Identity("demo", "replica-a", 2), Generation(7), Instance("pod-uid"), controller=ControllerName("c-1")
    )


def test_the_address_is_no_part_of_the_claim():
    moved = replace(RECORD, host="127.0.0.9")
    assert moved.claim(ControllerName("c")) == RECORD.claim(ControllerName("c"))


def test_a_life_is_another_one_when_generation_or_instance_differs():
    others = [replace(RECORD, generation=Generation(8)), replace(RECORD, instance=Instance("other"))]
    assert RECORD.life not in [other.life for other in others]
    assert replace(RECORD, host="127.0.0.9").life == RECORD.life


def test_a_record_reads_as_where_and_as_whom_it_is_dialled():
    assert RECORD.ordinal == 2
    assert str(RECORD) == "127.0.0.4 as demo/replica-a/2, generation 7, pod-uid"
