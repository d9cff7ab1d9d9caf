"""XSpace files of JAX and XLA: the devices' events, without lines that summarise them."""

import pytest

import profilers
from genz_core.errors import ReportError

pytest.importorskip("google.protobuf")
from tests.profilers.xspace_file import xspace

GPU = {
    "/host:CPU": {"python": [("jit_step", 0, 9_000_000_000)]},
    "/device:GPU:0": {
        "Stream #13(compute)": [
            ("nvjet_tst_192x192_64x4", 5_000, 2_000_000), ("MemcpyD2H", 3_000_000, 1_000_000)
        ],
        "Stream #14(compute)": [("fusion_3", 1_000_000, 500_000)],
        "XLA Modules": [("jit_step", 0, 9_000_000)],
        "Steps": [("0", 0, 9_000_000)],
    },
}  # fmt: skip
TPU = {
    "/device:TPU:1": {
        "XLA Ops": [("fusion.12", 0, 4_000_000), ("all-reduce.3", 4_000_000, 1_000_000)],
        "XLA Modules": [("jit_step", 0, 9_000_000)],
    }
}


def read(tmp_path, data):
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(data)
    return profilers.read_report(path)


def test_streams_of_a_gpu_are_read_and_what_sums_them_is_not(tmp_path):
    report = read(tmp_path, xspace(GPU))
    kernels = report.kernels
    assert report.format == "xplane"
    assert kernels["name"].tolist() == ["nvjet_tst_192x192_64x4", "fusion_3"]
    assert kernels["stream"].tolist() == [13, 14]
    assert kernels["start_s"].tolist() == pytest.approx([0.0, 0.995e-6], abs=1e-12)
    assert kernels["duration_s"].tolist() == pytest.approx([2e-6, 0.5e-6])
    assert report.copies["kind"].tolist() == ["DtoH"]


def test_operators_of_a_tpu_have_its_name_and_their_classes(tmp_path):
    report = read(tmp_path, xspace(TPU, device="TPU v5e"))
    assert report.kernels["duration_s"].sum() == pytest.approx(5e-6)
    assert report.kernels["operator_class"].tolist()[1] == "communication"
    assert [(device.index, device.name) for device in report.devices] == [(1, "TPU v5e")]


def test_a_space_of_a_host_alone_says_so(tmp_path):
    report = read(tmp_path, xspace({"/host:CPU": GPU["/host:CPU"]}))
    assert not len(report.kernels)
    assert "no work of a GPU or TPU" in report.notes[0]


def test_a_space_that_breaks_off_is_refused(tmp_path):
    with pytest.raises(ReportError):
        read(tmp_path, xspace(GPU)[:-20])
