"""What the kubelet lists, of real captures and of later forms, with its traps left visible."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.device_ids import parse
from agent.devices import DraDevice, physical
from agent.kubelet.podresources import (
    COVERS,
    MAX_BYTES,
    MAX_ELEMENTS,
    Claim,
    Container,
    Held,
    Holder,
    Listing,
    Pod,
    Prepared,
    claimants,
    container,
    holders,
    listing,
    read_listing,
    same_names,
)
from policy.unreadable import Unreadable

# Of a Kubernetes 1.21.3 node with a stand-in device plugin; pods of no interest are left out.
CAPTURES = Path(__file__).parent / "captures"
A, B = "GPU-2e874132-ed8c-5cfa-9c14-0af00919ae11", "GPU-b5c159ed-97ef-523e-9b2f-dbcfee495f3b"
C = "GPU-9b94f854-4fa4-5a84-9c98-4bad326ab81e"
GPU = "nvidia.com/gpu"


def captured(name):
    found = read_listing((CAPTURES / f"podresources-{name}.json").read_bytes())
    assert isinstance(found, Listing)
    assert not found.unreadable
    return found


def read(*pods):
    found = read_listing(msgspec.json.encode({"pod_resources": list(pods)}))
    assert isinstance(found, Listing)
    return found


def pod(name="p", *containers, namespace="team"):
    return {"name": name, "namespace": namespace, "containers": list(containers)}


class TestRealAnswers:
    def test_entries_of_one_resource_are_one(self):
        pods = {one.name: one for one in captured("timeslicing").pods}
        assert pods["shared-b"].containers == (
            Container("c", (Held(GPU, (f"{A}::1", f"{B}::1", f"{B}::2")),)),
        )

    def test_a_shared_gpu_has_a_set_of_owners(self):
        owners = {}
        for (resource, device_id), some in holders(captured("timeslicing")).items():
            device = physical(parse(resource, device_id))
            owners.setdefault(device.uuid, set()).update(holder.pod for holder in some)
        assert owners == {A: {"shared-a", "shared-b"}, B: {"shared-a", "shared-b"}}

    def test_order_does_not_matter(self):
        # The two captures have the same pods, with the devices of two-init in different order.
        assert captured("during-init") == captured("completed-and-running")

    def test_a_finished_pod_is_listed_with_nothing_and_is_not_read_as_owning_nothing(self):
        pods = {one.name: one for one in captured("completed-and-running").pods}
        (done,) = pods["done-gpu"].containers
        assert done.empty
        assert (GPU, C) in holders(captured("completed-and-running"))

    def test_init_containers_are_not_covered(self):
        pods = {one.name: one for one in captured("during-init").pods}
        assert [one.name for one in pods["two-init"].containers] == ["a", "b"]
        assert frozenset({"app", "sidecar"}) == COVERS


class TestTraps:
    def test_a_finished_pod_and_its_successor_hold_one_id(self):
        # kubernetes/kubernetes#119423: up to 1.33 List names finished pods with their devices
        device = {"resource_name": GPU, "device_ids": [A]}
        found = read(
            pod("job-b", {"name": "c", "devices": [device]}), pod("job-a", {"name": "c", "devices": [device]})
        )
        assert holders(found) == {(GPU, A): (Holder("team", "job-a", "c"), Holder("team", "job-b", "c"))}

    def test_pods_of_one_name_are_both_kept_and_told(self):
        old = {"name": "c", "devices": [{"resource_name": GPU, "device_ids": [A]}]}
        new = {"name": "c", "devices": [{"resource_name": GPU, "device_ids": [B]}]}
        found = read(pod("web-0", new), pod("web-0", old), pod("web-1"))
        assert same_names(found) == {("team", "web-0")}
        assert len(found.pods) == 3
        assert found == read(pod("web-1"), pod("web-0", old), pod("web-0", new))

    def test_a_claim_is_listed_for_each_container_that_names_it(self):
        resources = [
            {"driver_name": "gpu.nvidia.com", "pool_name": "node-1", "device_name": f"gpu-{n}",
             "cdi_devices": [{"name": f"k8s.gpu.nvidia.com/claim=u-gpu-{m}"} for m in range(n + 1)]}
            for n in (1, 0)
        ]  # fmt: skip
        claim = {"claim_name": "two", "claim_namespace": "team", "claim_resources": resources}
        found = read(
            pod("p", {"name": "a", "dynamic_resources": [claim]}, {"name": "b", "dynamic_resources": [claim]})
        )
        first, second = (DraDevice("gpu.nvidia.com", "node-1", f"gpu-{n}") for n in (0, 1))
        both = (Holder("team", "p", "a"), Holder("team", "p", "b"))
        assert claimants(found) == {first: both, second: both}
        assert holders(found) == {}
        (one, _) = found.pods[0].containers
        assert not one.empty
        # The second entry carries the CDI ids of the first too: they identify no device.
        assert one.claims == (
            Claim("team", "two", (
                Prepared(first, ("k8s.gpu.nvidia.com/claim=u-gpu-0",)),
                Prepared(second, ("k8s.gpu.nvidia.com/claim=u-gpu-0", "k8s.gpu.nvidia.com/claim=u-gpu-1")),
            )),
        )  # fmt: skip

    def test_before_1_31_a_claim_names_no_device(self):
        claim = {"class_name": "gpu.nvidia.com", "claim_name": "c", "claim_namespace": "team",
                 "claim_resources": [{"cdi_devices": [{"name": "x"}]}]}  # fmt: skip
        found = read(pod("p", {"name": "a", "dynamic_resources": [claim]}))
        (prepared,) = found.pods[0].containers[0].claims[0].prepared
        assert isinstance(prepared.names, Unreadable)
        assert claimants(found) == {}

    def test_shares_of_one_device_are_told_apart(self):
        names = {"driver_name": "d", "pool_name": "n", "device_name": "g"}
        claims = [{"claim_name": "c", "claim_namespace": "team", "claim_resources": [
            {**names, "share_id": "1"}, {**names, "share_id": "2"}, names]}]  # fmt: skip
        found = read(pod("p", {"name": "a", "dynamic_resources": claims}))
        assert set(claimants(found)) == {
            DraDevice("d", "n", "g"), DraDevice("d", "n", "g", "1"), DraDevice("d", "n", "g", "2")
        }  # fmt: skip


class TestUnknown:
    def test_more_elements_than_a_node_can_have_are_counted_and_not_made(self):
        found = read_listing(b'{"pod_resources": [' + b"{}," * (MAX_ELEMENTS + 1) + b"{}]}")
        assert isinstance(found, Unreadable)
        assert "elements" in found.reason

    @pytest.mark.parametrize(
        "text",
        [b"", b"null", b"[]", b"{", b'{"podResources": []}', b'{"pod_resources": {}}', b'{"pod_resources": "\xff"}',
         b"[" * 100_000, b'{"pod_resources": ' + b"[" * 100_000, b" " * (MAX_BYTES + 1)],
        ids=range(10),
    )  # fmt: skip
    def test_a_text_that_is_no_answer_is_not_an_empty_answer(self, text):
        assert isinstance(read_listing(text), Unreadable)

    def test_an_answer_without_pods_is_one(self):
        assert read_listing(b"{}") == Listing(())

    def test_a_pod_without_a_name_leaves_the_others(self):
        found = read({"containers": []}, 7, pod("p"))
        assert [one.name for one in found.pods] == ["p"]
        assert len(found.unreadable) == 2
        assert not found.complete

    @pytest.mark.parametrize(
        "wrong",
        [
            {"name": "a", "devices": [{"resource_name": GPU, "device_ids": [1]}]},
            {"name": "a", "devices": [{"resource_name": GPU, "device_ids": [""]}]},
            {"name": "a", "devices": [{"device_ids": [A]}]},
            {"name": "a", "dynamic_resources": [{"claim_resources": [{"device_name": 0}]}]},
            {"devices": []},
            "a",
        ],
    )
    def test_a_container_that_cannot_be_read_makes_its_pod_unknown_and_no_other(self, wrong):
        good = {"name": "c", "devices": [{"resource_name": GPU, "device_ids": [A]}]}
        found = read(pod("bad", wrong), pod("good", good))
        bad, other = found.pods
        assert isinstance(bad.containers, Unreadable)
        assert other.containers == (Container("c", (Held(GPU, (A,)),)),)
        assert holders(found) == {(GPU, A): (Holder("team", "good", "c"),)}
        assert not found.complete
        assert read(pod("good", good)).complete

    def test_fields_of_later_kubelets_are_skipped(self):
        found = read({**pod("p"), "cpu_ids": [1, 2], "memory": [{"size": 4}], "later": {"a": 1}})
        assert found == Listing((Pod("team", "p", ()),))


names = st.text("abc-0", min_size=1, max_size=4)
ids = st.lists(st.text(min_size=1, max_size=5), max_size=3)
some_devices = st.lists(st.tuples(names, ids), max_size=3)
some_claims = st.lists(
    st.builds(
        Claim, names, names,
        st.lists(st.builds(Prepared, st.builds(DraDevice, names, names, names, st.just("") | names)), max_size=1)
        .map(tuple),
    ),
    max_size=2,
)  # fmt: skip
containers = st.builds(container, names, some_devices, some_claims)
pods = st.lists(
    st.builds(Pod, names, names, st.lists(containers, max_size=3, unique_by=lambda one: one.name).map(tuple)),
    max_size=4,
)


def as_written(one, rng):
    """Write a pod as the kubelet does: an entry for each device, in any order, empty fields absent."""
    found = []
    for listed in one.containers:
        entries = [
            {"resource_name": held.resource, "device_ids": [device], "topology": {"nodes": [{}]}}
            for held in listed.held for device in held.ids
        ]  # fmt: skip
        claims = [
            {"claim_name": claim.name, "claim_namespace": claim.namespace, "claim_resources": [
                {"driver_name": p.names.driver, "pool_name": p.names.pool, "device_name": p.names.device,
                 **({"share_id": p.names.share} if p.names.share else {})} for p in claim.prepared]}
            for claim in listed.claims
        ]  # fmt: skip
        rng.shuffle(entries)
        rng.shuffle(claims)
        found.append({"name": listed.name, **({"devices": entries} if entries else {}),
                      **({"dynamic_resources": claims} if claims else {})})  # fmt: skip
    rng.shuffle(found)
    return {"name": one.name, "namespace": one.namespace, "containers": found}


@given(pods, st.randoms(use_true_random=False))
def test_what_a_kubelet_writes_in_any_order_is_read_back(some, rng):
    written = [as_written(one, rng) for one in some]
    rng.shuffle(written)
    assert read_listing(msgspec.json.encode({"pod_resources": written})) == listing(some)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "namespace", "containers", "devices", "resource_name", "device_ids",
                             "dynamic_resources", "claim_resources", "cdi_devices", "share_id"]),
            inner, max_size=4,
        )
    ),
    max_leaves=15,
)  # fmt: skip


@given(st.lists(anything, max_size=3))
def test_no_json_raises(some):
    found = read_listing(msgspec.json.encode({"pod_resources": some}))
    assert isinstance(found, Listing)
    assert len(found.pods) + len(found.unreadable) == len(some)
    holders(found), claimants(found), same_names(found)


WHOLE = (CAPTURES / "podresources-timeslicing.json").read_bytes()


@given(st.binary(max_size=200) | st.integers(0, len(WHOLE)).map(lambda end: WHOLE[:end]))
def test_no_bytes_raise(text):
    assert isinstance(read_listing(text), (Listing, Unreadable))


@pytest.mark.parametrize("seed", range(20))
def test_no_damaged_answer_raises(seed):
    rng = random.Random(seed)
    for _ in range(100):
        text = bytearray(WHOLE)
        for _ in range(rng.randint(1, 4)):
            text[rng.randrange(len(text))] = rng.choice([*b'{}[]":,\\', 0x00, 0xFF, 0x80, 0x31])
        assert isinstance(read_listing(bytes(text)), (Listing, Unreadable))
