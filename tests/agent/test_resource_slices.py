"""A device of Dynamic Resource Allocation is what its newest ResourceSlice says, or unknown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.devices import DraDevice, Gpu, MigSlice, NotGpu
from agent.resource_slices import Resolved, resolve
from policy.unreadable import Unreadable

U = "2e874132-ed8c-5cfa-9c14-0af00919ae11"
V = "b5c159ed-97ef-523e-9b2f-dbcfee495f3b"
DRIVER = "gpu.nvidia.com"
GPU_0 = DraDevice(DRIVER, "node-1", "gpu-0")
SLICE_0 = DraDevice(DRIVER, "node-1", "gpu-0-mig-1g10gb-19-0")


def text(value):
    return {"string": value}


def gpu(name="gpu-0", uuid=f"GPU-{U}", **more):
    return {"name": name, "attributes": {"type": text("gpu"), "uuid": text(uuid), **more}}


def mig(**attributes):
    written = {
        "type": "mig",
        "uuid": f"MIG-{V}",
        "parentUUID": f"GPU-{U}",
        "profile": "1g.10gb",
        **attributes,
    }
    return {
        "name": SLICE_0.device,
        "attributes": {key: text(value) for key, value in written.items() if value},
    }


def published(*devices, driver=DRIVER, pool="node-1", generation=1, count=1):
    pool_ = {"name": pool, "generation": generation, "resourceSliceCount": count}
    return {"kind": "ResourceSlice", "spec": {"driver": driver, "pool": pool_, "devices": list(devices)}}


def test_a_gpu_is_found_by_driver_pool_and_name():
    assert resolve(GPU_0, [published(gpu())]) == Resolved(Gpu(f"GPU-{U}"))


def test_a_mig_slice_comes_with_its_parent_and_profile():
    assert resolve(SLICE_0, [published(gpu(), mig())]) == Resolved(
        MigSlice(f"MIG-{V}"), Gpu(f"GPU-{U}"), "1g.10gb"
    )


def test_attributes_of_v1beta1_are_one_level_down():
    device = gpu()
    old = {"name": "gpu-0", "basic": {"attributes": device["attributes"]}}
    assert resolve(GPU_0, [published(old)]) == Resolved(Gpu(f"GPU-{U}"))


def test_attributes_may_carry_the_domain_of_the_driver():
    device = {
        "name": "gpu-0",
        "attributes": {f"{DRIVER}/type": text("gpu"), f"{DRIVER}/uuid": text(f"GPU-{U}")},
    }
    assert resolve(GPU_0, [published(device)]) == Resolved(Gpu(f"GPU-{U}"))


def test_attributes_of_another_domain_do_not_count():
    device = {"name": "gpu-0", "attributes": {"type": text("gpu"), "example.com/uuid": text(f"GPU-{U}")}}
    assert isinstance(resolve(GPU_0, [published(device)]), Unreadable)


def test_the_same_name_in_another_pool_or_of_another_driver_is_another_device():
    others = [published(gpu(), pool="node-2"), published(gpu(), driver="gpu.example.com")]
    assert isinstance(resolve(GPU_0, others), Unreadable)
    assert resolve(GPU_0, [*others, published(gpu(uuid=f"GPU-{V}"))]) == Resolved(Gpu(f"GPU-{V}"))


def test_only_the_newest_generation_counts():
    slices = [published(gpu(uuid=f"GPU-{V}"), generation=7), published(gpu(), generation=3)]
    assert resolve(GPU_0, slices) == Resolved(Gpu(f"GPU-{V}"))
    assert isinstance(resolve(GPU_0, [published(gpu()), published(generation=2)]), Unreadable)


def test_a_pool_that_is_not_wholly_there_says_how_much_is():
    found = resolve(GPU_0, [published(gpu("gpu-1"), count=3)])
    assert found == Unreadable("1 of 3 ResourceSlices are there, none with gpu.nvidia.com/node-1/gpu-0")


def test_dynamic_mig_has_no_uuid_and_is_unknown():
    found = resolve(SLICE_0, [published(mig(uuid=None))])
    assert isinstance(found, Unreadable)
    assert "no uuid" in found.reason


@pytest.mark.parametrize(
    "device",
    [
        gpu(uuid="0"),
        gpu(uuid=f"MIG-{V}"),
        mig(uuid=f"GPU-{U}") | {"name": "gpu-0"},
        {"name": "gpu-0", "attributes": {"type": text("vfio"), "uuid": text(f"GPU-{U}")}},
        {"name": "gpu-0", "attributes": {"uuid": text(f"GPU-{U}")}},
        {"name": "gpu-0", "attributes": {"type": text("gpu"), "uuid": {"version": f"GPU-{U}"}}},
        {"name": "gpu-0", "attributes": {"type": text("gpu"), "uuid": f"GPU-{U}"}},
        {"name": "gpu-0", "attributes": []},
        {"name": "gpu-0"},
    ],
)
def test_a_device_that_does_not_say_which_gpu_it_is_is_unknown(device):
    assert isinstance(resolve(GPU_0, [published(device)]), Unreadable)


def test_two_slices_that_differ_about_a_device_make_it_unknown():
    slices = [published(gpu(), count=2), published(gpu(uuid=f"GPU-{V}"), count=2)]
    assert isinstance(resolve(GPU_0, slices), Unreadable)
    assert resolve(GPU_0, [slices[0], slices[0]]) == Resolved(Gpu(f"GPU-{U}"))


def test_an_unknown_parent_leaves_the_slice_known():
    assert resolve(SLICE_0, [published(mig(parentUUID="x"))]) == Resolved(
        MigSlice(f"MIG-{V}"), None, "1g.10gb"
    )


def test_a_slice_that_cannot_be_read_may_be_the_newest():
    assert isinstance(resolve(GPU_0, [published(gpu()), {"spec": {"driver": DRIVER}}]), Unreadable)


def test_an_unknown_driver_is_unknown_and_compute_domains_are_no_gpu():
    assert isinstance(
        resolve(DraDevice("gpu.example.com", "node-1", "gpu-0"), [published(gpu())]), Unreadable
    )
    channel = DraDevice("compute-domain.nvidia.com", "node-1", "channel-0")
    slices = [published({"name": "channel-0", "attributes": {}}, driver="compute-domain.nvidia.com")]
    assert resolve(channel, slices) == NotGpu()


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["spec", "driver", "pool", "name", "generation", "devices", "attributes", "uuid", "basic"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.lists(anything, max_size=3))
def test_no_object_raises(slices):
    assert isinstance(resolve(GPU_0, slices), Unreadable)


@given(st.lists(anything, max_size=3))
def test_no_device_raises(devices):
    found = resolve(GPU_0, [published(*devices, gpu())])
    assert found == Resolved(Gpu(f"GPU-{U}"))
