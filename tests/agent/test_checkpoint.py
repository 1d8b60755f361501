"""The kubelet's device checkpoint, of a real node and of the forms before and after."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.kubelet.checkpoint import (
    COVERS,
    MAX_BYTES,
    MAX_ELEMENTS,
    NO_TOPOLOGY,
    Allocation,
    Checkpoint,
    Placed,
    Registered,
    read_checkpoint,
)
from policy.unreadable import Unreadable

REAL = (Path(__file__).parent / "captures" / "kubelet_internal_checkpoint.json").read_bytes()  # 1.21.3
A, B = "GPU-2e874132-ed8c-5cfa-9c14-0af00919ae11", "GPU-b5c159ed-97ef-523e-9b2f-dbcfee495f3b"
GPU = "nvidia.com/gpu"
ENTRY = {
    "PodUID": "u",
    "ContainerName": "c",
    "ResourceName": GPU,
    "DeviceIDs": {"-1": [A]},
    "AllocResp": "CkI=",
}


def written(*entries, registered=None, **more):
    data = {"PodDeviceEntries": list(entries), "RegisteredDevices": registered or {}}
    return msgspec.json.encode({"Data": data, "Checksum": 1, **more})


def read(*entries, **more):
    found = read_checkpoint(written(*entries, **more))
    assert isinstance(found, Checkpoint)
    return found


class TestForms:
    def test_of_a_real_node(self):
        found = read_checkpoint(REAL)
        assert isinstance(found, Checkpoint)
        assert len(found.allocations) == 4
        assert found.allocations[0] == Allocation(
            "e4a6816b-92c0-4535-b2ae-6930df4a9823", "c", GPU, (Placed(0, (A,)),)
        )
        (registered,) = found.registered
        assert registered.resource == GPU
        assert {device for one in found.allocations for device in one.ids} == set(registered.ids)
        assert found.checksum == 4107297050
        assert found.boot_id is None

    def test_the_flat_list_up_to_1_19(self):
        (one,) = read({**ENTRY, "DeviceIDs": [B, A]}).allocations
        assert one.placed == (Placed(None, (A, B)),)
        assert one.ids == (A, B)

    def test_the_map_of_numa_nodes_since_1_20(self):
        (one,) = read({**ENTRY, "DeviceIDs": {"1": [B], "-1": ["x"], "0": [A], "10": None}}).allocations
        assert one.placed == (
            Placed(NO_TOPOLOGY, ("x",)), Placed(0, (A,)), Placed(1, (B,)), Placed(10, ())
        )  # fmt: skip

    def test_a_device_of_two_numa_nodes_is_one_device(self):
        (one,) = read({**ENTRY, "DeviceIDs": {"0": [A], "1": [A]}}).allocations
        assert one.ids == (A,)

    def test_the_boot_id_of_the_newest_kubelets(self):
        assert read(BootID="b").boot_id == "b"

    def test_empty_lists_are_written_as_null(self):
        found = read_checkpoint(b'{"Data":{"PodDeviceEntries":null,"RegisteredDevices":null},"Checksum":0}')
        assert found == Checkpoint((), (), 0)

    def test_a_container_without_devices_has_no_ids(self):
        (one,) = read({**ENTRY, "DeviceIDs": None}).allocations
        assert one.ids == ()

    def test_init_containers_are_covered_and_one_id_may_be_in_two_of_a_pod(self):
        found = read({**ENTRY, "ContainerName": "init"}, ENTRY)
        assert [(one.container, one.ids) for one in found.allocations] == [("init", (A,)), ("c", (A,))]
        assert "init" in COVERS

    def test_the_largest_checksum_is_carried_and_not_judged(self):
        text = written().replace(b'"Checksum":1', b'"Checksum":18446744073709551615')
        assert read_checkpoint(text).checksum == 2**64 - 1

    def test_what_the_plugin_set_is_not_kept(self):
        answer = "c2VjcmV0LW9mLWEtcGx1Z2lu"
        assert answer not in repr(read({**ENTRY, "AllocResp": answer}))


class TestUnknown:
    def test_more_elements_than_a_node_can_have_are_counted_and_not_made(self):
        found = read_checkpoint(
            b'{"Data":{"PodDeviceEntries":[' + b"{}," * MAX_ELEMENTS + b'{}],"RegisteredDevices":{}}}'
        )
        assert isinstance(found, Unreadable)
        assert "elements" in found.reason

    @pytest.mark.parametrize(
        "text",
        [b"", b"null", b"{}", b"[]", b'{"Data":null}', b'{"Data":{}}', b'{"Data":{"PodDeviceEntries":[]}}',
         b'{"PodDeviceEntries":[],"RegisteredDevices":{}}', REAL[:-1], REAL[:500], REAL + REAL,
         b"[" * 100_000, b'{"Data":' + b'{"a":' * 100_000, b'{"x":' + b"[" * 100_000, b" " * (MAX_BYTES + 1)],
        ids=range(15),
    )  # fmt: skip
    def test_a_text_that_is_no_checkpoint_is_not_an_empty_one(self, text):
        assert isinstance(read_checkpoint(text), Unreadable)

    @pytest.mark.parametrize(
        "change",
        [
            {"PodUID": ""},
            {"ContainerName": ""},
            {"ResourceName": ""},
            {"PodUID": 7},
            {"DeviceIDs": "x"},
            {"DeviceIDs": [1]},
            {"DeviceIDs": [""]},
            {"DeviceIDs": {"0": [None]}},
            {"DeviceIDs": {"x": [A]}},
            {"DeviceIDs": {"00": [A]}},
            {"DeviceIDs": {"-2": [A]}},
            {"DeviceIDs": {"9" * 5000: [A]}},
            {"DeviceIDs": {"0": {"0": [A]}}},
        ],
    )
    def test_an_entry_that_cannot_be_read_leaves_the_others(self, change):
        bad, good = read({**ENTRY, **change}, ENTRY).allocations
        assert isinstance(bad, Unreadable)
        assert good == Allocation("u", "c", GPU, (Placed(NO_TOPOLOGY, (A,)),))

    def test_an_entry_without_its_devices_is_not_one_with_none(self):
        (found,) = read({key: value for key, value in ENTRY.items() if key != "DeviceIDs"}).allocations
        assert isinstance(found, Unreadable)

    def test_registered_devices_are_readable_each_by_itself(self):
        found = read(registered={"b/x": [B, A, A], "a/x": [1], "c/x": None}).registered
        assert [one.resource for one in found] == ["a/x", "b/x", "c/x"]
        assert isinstance(found[0].ids, Unreadable)
        assert found[1:] == (Registered("b/x", (A, B)), Registered("c/x", ()))

    def test_unreadable_registrations_leave_the_allocations(self):
        found = read_checkpoint(written(ENTRY).replace(b'"RegisteredDevices":{}', b'"RegisteredDevices":[]'))
        assert isinstance(found.registered, Unreadable)
        assert len(found.allocations) == 1

    @pytest.mark.parametrize("checksum", [b'"1"', b"null", b"1.5", b"{}"])
    def test_a_checksum_of_another_form_is_unknown_and_harms_nothing(self, checksum):
        found = read_checkpoint(written(ENTRY).replace(b'"Checksum":1', b'"Checksum":' + checksum))
        assert isinstance(found.checksum, Unreadable)
        assert len(found.allocations) == 1


names = st.text(min_size=1, max_size=6)
ids = st.lists(names, max_size=3, unique=True).map(lambda some: tuple(sorted(some)))
nodes = st.dictionaries(st.integers(NO_TOPOLOGY, 2**63 - 1), ids, max_size=3)
places = ids.map(lambda some: (Placed(None, some),)) | nodes.map(
    lambda some: tuple(Placed(node, some[node]) for node in sorted(some))
)
allocations = st.builds(Allocation, names, names, names, places)
checkpoints = st.builds(
    Checkpoint,
    st.lists(allocations, max_size=4).map(tuple),
    st.dictionaries(names, ids, max_size=3).map(
        lambda some: tuple(Registered(name, some[name]) for name in sorted(some))
    ),
    st.integers(0, 2**64 - 1),
    st.none() | names,
)


def as_written(checkpoint):
    """Write a checkpoint as Go does."""
    entries = []
    for one in checkpoint.allocations:
        flat = one.placed[0].ids if one.placed and one.placed[0].node is None else None
        entries.append({
            "PodUID": one.pod_uid, "ContainerName": one.container, "ResourceName": one.resource, "AllocResp": "",
            "DeviceIDs": {str(p.node): p.ids for p in one.placed} if flat is None else flat,
        })  # fmt: skip
    registered = {one.resource: one.ids for one in checkpoint.registered}
    data = {"PodDeviceEntries": entries or None, "RegisteredDevices": registered}
    return msgspec.json.encode({"Data": data, "Checksum": checkpoint.checksum, "BootID": checkpoint.boot_id})


@given(checkpoints)
def test_what_a_kubelet_writes_is_read_back(checkpoint):
    assert read_checkpoint(as_written(checkpoint)) == checkpoint


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["PodUID", "ContainerName", "ResourceName", "DeviceIDs", "-1", "0", "x"]),
            inner, max_size=5,
        )
    ),
    max_leaves=15,
)  # fmt: skip


@given(st.lists(anything, max_size=3), anything)
def test_no_json_raises(entries, registered):
    found = read_checkpoint(written(*entries, registered=registered))
    assert isinstance(found, Checkpoint)
    assert len(found.allocations) == len(entries)


@given(st.binary(max_size=200) | st.integers(0, len(REAL) - 2).map(lambda end: REAL[:end]))
def test_a_torn_file_is_unknown(text):
    assert isinstance(read_checkpoint(text), Unreadable)


@pytest.mark.parametrize("seed", range(20))
def test_no_damaged_file_raises(seed):
    rng = random.Random(seed)
    for _ in range(100):
        text = bytearray(REAL)
        for _ in range(rng.randint(1, 4)):
            text[rng.randrange(len(text))] = rng.choice([*b'{}[]":,\\', 0x00, 0xFF, 0x80, 0x31])
        assert isinstance(read_checkpoint(bytes(text)), (Checkpoint, Unreadable))
