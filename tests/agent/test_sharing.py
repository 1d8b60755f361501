"""What HAMi's annotation and KAI's labels say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.devices import Gpu, MigInstance, MigSlice
from agent.sharing import HamiShare, HamiSlot, hami_shares, kai_groups, kai_reservation
from policy.unreadable import Unreadable

U = "29d5fa0d-935b-2966-aff8-483a174d61d1"
V = "0fc3eda5-e98b-a25b-5b0d-cf5c855d1448"
GPU = Gpu(f"GPU-{U}")
FIRST = HamiShare(GPU, "NVIDIA", 1024, 20)
SECOND = HamiShare(Gpu(f"GPU-{V}"), "NVIDIA", 3000, 0)

READ = [
    # as HAMi's own documents print it, with and without what ends an entry
    (f"GPU-{U},NVIDIA,1024,20:;", ((FIRST,),)),
    (f"GPU-{U},NVIDIA,1024,20:", ((FIRST,),)),
    (f"GPU-{U},NVIDIA,1024,20", ((FIRST,),)),
    (f"GPU-{U},NVIDIA,1024,20:GPU-{V},NVIDIA,3000,0:;", ((FIRST, SECOND),)),
    (f"GPU-{U},NVIDIA,1024,20:;GPU-{V},NVIDIA,3000,0:;", ((FIRST,), (SECOND,))),
    (f";GPU-{V},NVIDIA,3000,0:;", ((), (SECOND,))),  # the first container has no GPU
    (f"GPU-{U},NVIDIA,1024,20:;;", ((FIRST,), ())),
    (";", ((),)),  # to-allocate, when all is done
    ("", ()),
    (f"GPU-{U},NVIDIA-NVIDIA A100-SXM4-80GB,1,2:;", ((HamiShare(GPU, "NVIDIA-NVIDIA A100-SXM4-80GB", 1, 2),),)),
    (f"MIG-{U},NVIDIA,1,2:;", ((HamiShare(MigSlice(f"MIG-{U}"), "NVIDIA", 1, 2),),)),
    (f"MIG-GPU-{U}/1/0,NVIDIA,1,2:;", ((HamiShare(MigInstance(GPU, 1, 0), "NVIDIA", 1, 2),),)),
    (f"GPU-{U}[0-2],NVIDIA,1,2:;", ((HamiShare(HamiSlot(GPU, 0, 2), "NVIDIA", 1, 2),),)),  # MIG on demand
]  # fmt: skip


@pytest.mark.parametrize(("annotation", "shares"), READ, ids=[text or "empty" for text, _ in READ])
def test_the_annotation_names_the_shares_of_each_container(annotation, shares):
    assert hami_shares(annotation) == shares


@pytest.mark.parametrize(
    "annotation",
    [
        f"GPU-{U}",
        f"GPU-{U},1024,20:;",
        f"GPU-{U},NVIDIA,1024,20,5:;",
        f"GPU-{U},NVIDIA,-1,20:;",
        f"GPU-{U},NVIDIA,1024,:;",
        f"GPU-{U},NVIDIA,1e3,20:;",
        f"GPU-{U}[0],NVIDIA,1,2:;",
        f"GPU-{'-' * 36}[0-1],NVIDIA,1,2:;",
        "0,NVIDIA,1024,20:;",
        f"GPU-{U},NVIDIA,1024,20::GPU-{V},NVIDIA,3000,0:;",
        f"GPU-{U},NVIDIA,1024,20:;nonsense;",
        ";" * 300_000,
    ],
)  # fmt: skip
def test_one_device_that_cannot_be_read_makes_the_whole_unknown(annotation):
    assert isinstance(hami_shares(annotation), Unreadable)


shares = st.builds(
    HamiShare,
    st.uuids().map(lambda uuid: Gpu(f"GPU-{uuid}")),
    st.text("ABCN -0189", min_size=1, max_size=8),
    st.integers(0, 999_999_999),
    st.integers(0, 100),
)


@given(st.lists(st.lists(shares, max_size=3).map(tuple), max_size=4).map(tuple))
def test_what_hami_writes_is_read_back(containers):
    # EncodePodSingleDevice and EncodeContainerDevices of HAMi pkg/device/devices.go
    annotation = "".join(
        "".join(f"{one.device.uuid},{one.type},{one.memory},{one.cores}:" for one in container) + ";"
        for container in containers
    )
    assert hami_shares(annotation) == containers


@given(
    st.text(max_size=200) | st.lists(st.sampled_from([f"GPU-{U}", ",", ":", ";", "1", "[0-1]"])).map("".join)
)
def test_no_annotation_raises(annotation):
    found = hami_shares(annotation)
    assert isinstance(found, (tuple, Unreadable))


def test_a_pod_is_in_the_groups_that_its_labels_name():
    assert kai_groups({}) == frozenset()
    assert kai_groups({"app": "x", "runai-gpu-group-x": "y"}) == frozenset()
    assert kai_groups({"runai-gpu-group": "g"}) == {"g"}
    assert kai_groups({"runai-gpu-group/a": "a", "runai-gpu-group/b": "b"}) == {"a", "b"}
    assert kai_groups({"runai-gpu-group": ""}) == frozenset()


def test_only_the_namespace_makes_a_pod_a_reservation():
    labels = {"runai-gpu-group": "g"}
    assert kai_reservation("kai-resource-reservation", labels) == "g"
    assert kai_reservation("team-a", labels) is None
    assert kai_reservation("runai-reservation", labels, "runai-reservation") == "g"


def test_a_reservation_without_one_group_is_unknown():
    for labels in ({}, {"runai-gpu-group": "a", "runai-gpu-group/b": "b"}):
        assert isinstance(kai_reservation("kai-resource-reservation", labels), Unreadable)
