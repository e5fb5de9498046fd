"""What a floor says, as values and as bytes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.admission import Floor
from sidecar.errors import StartError
from sidecar.floor.record import BelowFloor, FloorDamaged, FloorRecord, StoredFloor, decode, encode
from sidecar.identity import MAX_COUNTER, Epoch, Generation
from tests.names import OTHER, OWN

COUNTERS = st.integers(1, MAX_COUNTER)
RECORDS = st.builds(
    FloorRecord,
    st.none() | st.builds(Generation, COUNTERS),
    st.dictionaries(st.text(max_size=8), st.builds(Epoch, COUNTERS), max_size=4),
)
STORED = st.builds(StoredFloor, st.just(OWN), st.integers(1, 2**70), RECORDS)

EXAMPLE = StoredFloor(OWN, 2, FloorRecord(Generation(7), {"compute": Epoch(12), "api": Epoch(MAX_COUNTER)}))
TEXT = b"""\
{
  "version": 1,
  "slot": "prod-eu/replica-a/2",
  "series": 2,
  "generation": "7",
  "epochs": {
    "api": "18446744073709551615",
    "compute": "12"
  },
  "sha256": "0237be3d157cf90460d34824ed2a769d272fddafbe176a179f0d37482f6708a1"
}
"""


def test_the_format_is_this_one():
    assert encode(EXAMPLE) == TEXT
    assert decode(TEXT) == EXAMPLE


@given(STORED)
def test_what_was_encoded_is_decoded(stored):
    assert encode(stored).isascii()
    assert decode(encode(stored)) == stored


@given(STORED, st.data())
def test_a_byte_that_changed_is_noticed(stored, data):
    raw = bytearray(encode(stored))
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(FloorDamaged):
        decode(bytes(raw))


@given(STORED, st.data())
def test_a_file_that_was_cut_short_or_goes_on_is_noticed(stored, data):
    raw = encode(stored)
    end = data.draw(st.integers(0, len(raw) - 1))
    for wrong in (raw[:end], raw[:end] + bytes(len(raw) - end), raw + raw[:end] + b"\n"):
        with pytest.raises(FloorDamaged):
            decode(wrong)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
FIELDS = st.fixed_dictionaries(dict.fromkeys(("slot", "series", "generation", "epochs", "sha256"), JSON))


@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_whatever_is_no_floor_is_damaged_and_nothing_worse(raw):
    with pytest.raises(FloorDamaged, match=r"isn't a floor|is of a version"):
        decode(raw)


@given(FIELDS)
def test_fields_of_the_wrong_kind_are_damage_and_nothing_worse(fields):
    with pytest.raises(FloorDamaged, match=r"isn't a floor|doesn't match its checksum"):
        decode(json.dumps({"version": 1} | fields).encode())


def test_a_nesting_without_end_is_damage():
    with pytest.raises(FloorDamaged, match="isn't a floor"):
        decode(b"[" * 100_000)


def test_a_later_version_is_said_to_be_one():
    with pytest.raises(FloorDamaged, match="is of a version other than 1, which is all that this sidecar knows"):
        decode(encode(EXAMPLE).replace(b'"version": 1', b'"version": 2'))


def test_a_number_that_was_changed_by_hand_is_noticed():
    with pytest.raises(FloorDamaged, match="doesn't match its checksum"):
        decode(encode(EXAMPLE).replace(b'"7"', b'"6"'))


def test_a_record_rises():
    record = FloorRecord().with_generation(Generation(7)).with_epoch("compute", Epoch(3)).with_generation(Generation(8))
    assert record == FloorRecord(Generation(8), {"compute": Epoch(3)})


def test_equal_is_no_change():
    record = FloorRecord(Generation(7), {"compute": Epoch(3)})
    assert record.with_generation(Generation(7)) == record
    assert record.with_epoch("compute", Epoch(3)) == record


def test_a_record_never_falls():
    record = FloorRecord(Generation(7), {"compute": Epoch(3)})
    with pytest.raises(BelowFloor, match="generation 6, floor 7"):
        record.with_generation(Generation(6))
    with pytest.raises(BelowFloor, match="epoch 2, floor 3"):
        record.with_epoch("compute", Epoch(2))


def test_scopes_have_epochs_of_their_own():
    record = FloorRecord(Generation(7), {"compute": Epoch(3)}).with_epoch("api", Epoch(1))
    assert record.at("compute") == Floor(Generation(7), Epoch(3))
    assert record.at("api") == Floor(Generation(7), Epoch(1))
    assert record.at("other") == Floor(Generation(7), None)


def test_a_record_keeps_nothing_that_somebody_else_may_change():
    epochs = {"compute": Epoch(3)}
    record = FloorRecord(None, epochs)
    epochs["compute"] = Epoch(1)
    assert record.at("compute").epoch == Epoch(3)
    with pytest.raises(TypeError):
        record.epochs["compute"] = Epoch(1)


@pytest.mark.parametrize("series", [0, -1, True, 1.0, "1", None])
def test_a_series_is_a_whole_number_from_1(series):
    with pytest.raises(ValueError, match="series must be a whole number from 1"):
        StoredFloor(OWN, series)


def test_a_floor_fits_its_own_slot_in_its_series_and_later_ones():
    EXAMPLE.check_fits(OWN, 2)
    EXAMPLE.check_fits(OWN, 3)


def test_a_floor_of_another_slot_names_both():
    with pytest.raises(StartError, match=f"the floor of {OWN}, and this sidecar holds {OTHER}: give each slot"):
        EXAMPLE.check_fits(OTHER, 2)


def test_a_series_that_was_given_up_isnt_taken_up_again():
    with pytest.raises(StartError, match=r"floor_series is 1, .* is of series 2: .*; set floor_series to 2 or more"):
        EXAMPLE.check_fits(OWN, 1)


@pytest.mark.parametrize(
    ("own", "other", "covered"),
    [
        (FloorRecord(), FloorRecord(), True),
        (FloorRecord(Generation(7)), FloorRecord(), True),
        (FloorRecord(Generation(7)), FloorRecord(Generation(7)), True),
        (FloorRecord(Generation(7)), FloorRecord(Generation(8)), False),
        (FloorRecord(), FloorRecord(Generation(1)), False),
        (FloorRecord(Generation(9)), FloorRecord(None, {"s": Epoch(1)}), False),
        (FloorRecord(None, {"s": Epoch(2), "t": Epoch(1)}), FloorRecord(None, {"s": Epoch(2)}), True),
        (FloorRecord(None, {"s": Epoch(2), "t": Epoch(1)}), FloorRecord(None, {"t": Epoch(2)}), False),
    ],
)
def test_one_covers_another_where_it_is_nowhere_below(own, other, covered):
    assert own.covers(other) is covered
