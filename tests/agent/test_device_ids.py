"""What the ids of each plugin are read as, what is refused, and that no two ids are ever read as one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.device_ids import LONGEST_ID, TABLE, Entry, by_index, by_path, parse
from agent.devices import (
    DraDevice,
    EveryGpu,
    Gpu,
    GpuIndex,
    GpuMinor,
    MigInstance,
    MigSlice,
    NotGpu,
    Replica,
    SchedulerSlot,
    Unverifiable,
    physical,
)
from policy.gpu import AMD_DEVICES, INTEL_DEVICES
from policy.unreadable import Unreadable

U = "2e874132-ed8c-5cfa-9c14-0af00919ae11"  # of a captured node
V = "b5c159ed-97ef-523e-9b2f-dbcfee495f3b"
GPU, MIG = Gpu(f"GPU-{U}"), MigSlice(f"MIG-{V}")
NVIDIA = "nvidia.com/gpu"

READ = [
    # NVIDIA/k8s-device-plugin internal/rm/devices.go: NVML's UUID, `::` and the replica; captures from a 1.21.3 node
    (NVIDIA, f"GPU-{U}", GPU),
    (NVIDIA, f"GPU-{U}::0", Replica(GPU, 0)),
    (NVIDIA, f"GPU-{U}::12", Replica(GPU, 12)),
    ("nvidia.com/gpu.shared", f"GPU-{U}::3", Replica(GPU, 3)),
    ("nvidia.com/mig-1g.5gb", f"MIG-{V}", MIG),
    ("nvidia.com/mig-1g.10gb.me", f"MIG-{V}", MIG),
    ("nvidia.com/mig-1g.5gb.shared", f"MIG-{V}::1", Replica(MIG, 1)),
    (NVIDIA, f"MIG-{V}", MIG),  # strategy single
    ("nvidia.com/mig-3g.20gb", f"MIG-GPU-{U}/1/0", MigInstance(GPU, 1, 0)),  # drivers before R470
    ("nvidia.com/mig-3g.20gb", f"MIG-GPU-{U}/11/0::2", Replica(MigInstance(GPU, 11, 0), 2)),
    (NVIDIA, "all", EveryGpu()),  # WSL
    (NVIDIA, "all::1", Replica(EveryGpu(), 1)),
    ("alpha.kubernetes.io/nvidia-gpu", f"GPU-{U}", GPU),
    # GoogleCloudPlatform/container-engine-accelerators pkg/gpu/nvidia/gpusharing/gpusharing.go
    (NVIDIA, "nvidia0", GpuMinor(0)),
    (NVIDIA, "nvidia15", GpuMinor(15)),
    (NVIDIA, "nvidia0/gi3", MigInstance(GpuMinor(0), 3)),
    (NVIDIA, "nvidia0/vgpu1", Replica(GpuMinor(0), 1)),
    (NVIDIA, "nvidia0/gi0/vgpu0", Replica(MigInstance(GpuMinor(0), 0), 0)),
    # Project-HAMi/HAMi pkg/device-plugin/nvidiadevice
    (NVIDIA, f"GPU-{U}-0", SchedulerSlot(GPU, 0)),
    ("hami.io/gpu", f"GPU-{U}-9", SchedulerSlot(GPU, 9)),
    (NVIDIA, f"MIG-{V}-1", SchedulerSlot(MIG, 1)),
    # ROCm/k8s-device-plugin amdgpu.go, timeslice.go
    ("amd.com/gpu", "0000:19:00.0", Unverifiable("AMD", "0000:19:00.0")),
    ("amd.com/cpx_nps4", "amdgpu_xcp_7", Unverifiable("AMD", "amdgpu_xcp_7")),
    ("amd.com/gpu", "0000:19:00.0-slice-2", Unverifiable("AMD", "0000:19:00.0", 2)),
    ("amd.com/gpu_vf", "0000:19:00.1", Unverifiable("AMD", "0000:19:00.1")),
    # intel/intel-device-plugins-for-kubernetes cmd/gpu_plugin/gpu_plugin.go
    ("gpu.intel.com/i915", "card0-0", Unverifiable("Intel", "card0", 0)),
    ("gpu.intel.com/xe", "card12-3", Unverifiable("Intel", "card12", 3)),
    ("gpu.intel.com/i915_monitoring", "all", Unverifiable("Intel", "all")),
    # network cards under nvidia.com/
    ("nvidia.com/hostdev", "0000:3b:00.0", NotGpu()),
    ("nvidia.com/rdma_shared_device_a", "7", NotGpu()),
]  # fmt: skip


@pytest.mark.parametrize(("resource", "device_id", "value"), READ, ids=[f"{r}:{i}" for r, i, _ in READ])
def test_an_id_is_read_as_what_its_plugin_means(resource, device_id, value):
    assert parse(resource, device_id) == value


REFUSED = [
    "",
    "0",  # DEVICE_ID_STRATEGY=index is for the runtime; the kubelet has UUIDs
    "/dev/nvidia0",
    f"GPU-{U.upper()}",
    f" GPU-{U}",
    f"GPU-{U}\n",
    f"GPU-{U}::",
    f"GPU-{U}::01",
    f"GPU-{U}::-1",
    f"GPU-{U}::1::2",
    f"GPU-{U}-0::1",
    f"GPU-{U}-01",
    f"GPU-{U},GPU-{V}",
    f"GPU-{U[:-1]}",
    f"GPU-{U}0",
    f"MIG-GPU-{U}/1",
    f"MIG-GPU-{U}/1/0/0",
    f"MIG-GPU-{U}/01/0",
    f"MIG-MIG-{U}",
    f"mig-{U}",
    "nvidia",
    "nvidia00",
    "nvidia0/gi",
    "nvidia0/vgpu0/gi0",
    "nvidia0/vgpu0::1",
    "nvidia0/gi0/ci0",
    "nvidia\u0661",  # a digit, and none that a plugin writes
    "GPU-" + "\u0662" * 8,
    "card0-0",
    "0000:19:00.0",
    "ALL",
    "void",
    "nvidia.com/gpu=0",
    "x" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("device_id", REFUSED, ids=[text[:40] for text in REFUSED])
def test_an_id_that_no_plugin_writes_is_unknown_and_says_so_on_one_line(device_id):
    found = parse(NVIDIA, device_id)
    assert isinstance(found, Unreadable)
    assert found.reason.isprintable()
    assert len(found.reason) < 200


@pytest.mark.parametrize(
    ("resource", "device_id"),
    [
        ("amd.com/gpu", "card0"),
        ("amd.com/gpu", "0000:19:00.0-slice-"),
        ("amd.com/gpu", "0000:19:00.0-slice-1-slice-2"),
        ("amd.com/gpu", f"GPU-{U}"),
        ("gpu.intel.com/i915", "all"),
        ("gpu.intel.com/i915", "card0"),
        ("gpu.intel.com/i915_monitoring", "card0-0"),
        ("hami.io/gpu", "nvidia0"),
    ],
)
def test_a_form_of_another_plugin_is_unknown(resource, device_id):
    assert isinstance(parse(resource, device_id), Unreadable)


def test_a_resource_without_a_row_is_unknown():
    assert parse("example.com/gpu", f"GPU-{U}") == Unreadable(
        "no device plugin is known for the resource example.com/gpu"
    )


@pytest.mark.parametrize("pattern", [*AMD_DEVICES, *INTEL_DEVICES])
def test_every_resource_that_the_policy_gives_to_amd_and_intel_has_a_row(pattern):
    found = parse(pattern.replace("*", "x"), "unknown")
    assert isinstance(found, Unreadable)
    assert "no device plugin" not in found.reason


def test_a_plugin_of_ones_own_is_one_row_more():
    table = (Entry("example.com/index", by_index), Entry("example.com/path", by_path), *TABLE)
    assert parse("example.com/index", "3", table) == GpuIndex(3)
    assert parse("example.com/path", "/dev/nvidia3", table) == GpuMinor(3)
    assert isinstance(parse("example.com/path", "/dev/nvidia3/../sda", table), Unreadable)
    assert isinstance(parse("example.com/index", "03", table), Unreadable)
    assert parse(NVIDIA, f"GPU-{U}", table) == GPU


def test_replicas_of_one_gpu_in_one_container_are_one_gpu():
    ids = (f"GPU-{U}::0", f"GPU-{U}::3", f"GPU-{V}::0")
    assert {physical(parse(NVIDIA, one)) for one in ids} == {GPU, Gpu(f"GPU-{V}")}


def test_what_cannot_be_asked_of_nvml_has_no_physical_device():
    for device in (
        parse(NVIDIA, f"GPU-{U}-0"), parse("amd.com/gpu", "0000:19:00.0"), parse("nvidia.com/hostdev", "a")
    ):  # fmt: skip
        assert isinstance(physical(device), Unreadable)


def test_an_id_in_the_form_of_two_systems_is_not_a_device_of_both():
    # GKE's minor and an index of the same number are different claims about a node.
    assert GpuMinor(0) != GpuIndex(0)
    assert DraDevice("a", "b", "c") != DraDevice("a", "b", "c", "share")


numbers = st.integers(0, 999_999_999)
uuids = st.uuids().map(str)
gpus = uuids.map(lambda uuid: (f"GPU-{uuid}", Gpu(f"GPU-{uuid}")))
migs = uuids.map(lambda uuid: (f"MIG-{uuid}", MigSlice(f"MIG-{uuid}")))
old_migs = st.tuples(gpus, numbers, numbers).map(
    lambda t: (f"MIG-{t[0][0]}/{t[1]}/{t[2]}", MigInstance(t[0][1], t[1], t[2]))
)
minors = numbers.map(lambda n: (f"nvidia{n}", GpuMinor(n)))
instances = st.tuples(minors, numbers).map(lambda t: (f"{t[0][0]}/gi{t[1]}", MigInstance(t[0][1], t[1])))
by_uuid, by_minor = st.one_of(gpus, migs, old_migs), st.one_of(minors, instances)
written = st.one_of(
    by_uuid,
    by_minor,
    st.tuples(by_uuid, numbers).map(lambda t: (f"{t[0][0]}::{t[1]}", Replica(t[0][1], t[1]))),
    st.tuples(by_minor, numbers).map(lambda t: (f"{t[0][0]}/vgpu{t[1]}", Replica(t[0][1], t[1]))),
    st.tuples(gpus | migs, numbers).map(lambda t: (f"{t[0][0]}-{t[1]}", SchedulerSlot(t[0][1], t[1]))),
)
resources = st.sampled_from(
    ["nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "hami.io/gpu", "amd.com/gpu", "gpu.intel.com/xe"]
)
pieces = st.lists(
    st.sampled_from(["GPU-", "MIG-", U, V, "::", "/", "-", "0", "1", "00", "nvidia", "gi", "vgpu", "card", "all",
                     "amdgpu_xcp_", "0000:19:00.0", "-slice-", "\n", " "]),
    max_size=6,
).map("".join)  # fmt: skip


@given(written)
def test_what_a_plugin_writes_is_read_back(pair):
    device_id, value = pair
    assert len(device_id) <= LONGEST_ID
    assert parse(NVIDIA, device_id) == value


@given(st.text(max_size=400) | resources, st.text(max_size=400) | pieces)
def test_no_text_raises(resource, device_id):
    found = parse(resource, device_id)
    if not isinstance(found, Unreadable):
        physical(found)


@given(resources, st.lists(pieces | written.map(lambda pair: pair[0]), max_size=20, unique=True))
def test_no_two_ids_are_read_as_the_same_value(resource, ids):
    found = [value for value in (parse(resource, one) for one in ids) if not isinstance(value, Unreadable)]
    assert len(set(found)) == len(found)


@given(resources, written, st.data())
def test_a_slip_in_one_character_is_another_device_or_unknown(resource, pair, data):
    device_id = pair[0]
    at = data.draw(st.integers(0, len(device_id)))
    put = data.draw(st.sampled_from(["", "0", "1", "a", "A", "-", ":", "/", " ", "\n", "\u0660"]))
    cut = data.draw(st.integers(0, 1))
    other = device_id[:at] + put + device_id[at + cut :]
    read = parse(resource, other)
    assert other == device_id or isinstance(read, Unreadable) or read != parse(resource, device_id)


@given(written, written)
def test_no_two_devices_are_read_as_one(one, other):
    left, right = (physical(parse(NVIDIA, pair[0])) for pair in (one, other))
    if isinstance(left, Unreadable) or isinstance(right, Unreadable):
        return
    assert (left == right) == (_device(one[0]) == _device(other[0]))


def _device(device_id):
    return device_id.split("::")[0].split("/vgpu")[0]
