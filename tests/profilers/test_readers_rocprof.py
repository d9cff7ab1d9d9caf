"""Tables and databases of rocprofv3 are read to the nanosecond, or refused by name."""

import csv
import json
import re
import sqlite3

import pytest

import profilers
from genz_core.errors import ReportError
from profilers.readers.folders import read_folder
from tests.profilers.rocpd_file import CAPTURE, kernel_rows, write_rocpd
from tests.profilers.units import whole_ns

TRACE = "rocprof/kernel_trace.csv"
#: Kernels and their summed time, counted in the file by hand.
KERNELS, TOTAL_NS = 7, 795_453
OLD = (
    '"Index","KernelName","gpu-id","queue-id","queue-index","pid","tid","grd","wgr","lds","scr",'
    '"arch_vgpr","accum_vgpr","sgpr","wave_size","sig","obj","DispatchNs","BeginNs","EndNs",'
    '"CompleteNs","DurationNs"\n'
    '0,"bodyForce(Body*, float, int) [clone .kd]",0,0,0,1,1,65536,256,0,0,20,4,16,64,"0x0","0x7f",'
    "1591372809346673,1591372809872935,1591372836189584,1591372836215944,26316649\n"
)


def test_a_kernel_trace_has_its_kernels_and_their_time(report_of):
    report = report_of(TRACE)
    summary = profilers.summarise(report)
    assert (report.format, report.tool) == ("rocprof-csv", "rocprof")
    assert summary["kernel_count"] == KERNELS
    assert whole_ns(summary["kernel_time_s"]) == TOTAL_NS
    assert summary["top_kernel"]["name"].startswith("void addition_kernel<float>(")
    assert summary["busy_time_s"] < summary["kernel_time_s"], "two queues overlap"


def test_times_are_exact_to_the_nanosecond(report_of, report_path):
    rows = kernel_rows(report_path(TRACE))
    kernels = report_of(TRACE).kernels
    assert [whole_ns(s) for s in kernels["duration_s"]] == [
        int(row["End_Timestamp"]) - int(row["Start_Timestamp"]) for row in rows
    ]
    assert kernels["grid"].tolist() == ["16,1024,1"] * len(rows), "work groups, not threads"
    assert kernels["block"].tolist() == ["64,1,1"] * len(rows)


def test_names_of_agents_and_columns_of_newer_versions_are_read(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text(
        '"Guid","Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id",'
        '"Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
        '"00006409","KERNEL_DISPATCH","Agent 4",1,3,7,1,3,"k.kd",1,1678314002982197,'
        "1678314003082277\n"
    )
    (kernel,) = profilers.read_report(path).kernels.to_dict("records")
    assert (kernel["name"], kernel["device"], kernel["stream"]) == ("k", 4, 3)
    assert whole_ns(kernel["duration_s"]) == 100_080


def test_counters_have_a_kernel_a_dispatch(report_of):
    report = report_of("rocprof/counter_collection.csv")
    assert len(report.kernels) == len(report.metrics) == KERNELS
    assert set(report.metrics["name"]) == {"SQ_WAVES"}
    assert set(report.metrics["value"]) == {16384.0}


def test_calls_and_markers_are_host_times_and_ranges(report_of):
    calls = report_of("rocprof/hip_api_stats.csv").host.set_index("name")
    assert whole_ns(calls["time_s"]["hipStreamCreateWithFlags"]) == 262_497_406
    traced = report_of("rocprof/hip_runtime_trace.csv").host.set_index("name")
    assert traced["count"]["hipMalloc"] >= 2
    markers = report_of("rocprof/marker_api_trace.csv").ranges
    assert "before hipLaunchKernel" in set(markers["name"])
    assert "kernel_trace.csv" in report_of("rocprof/hip_runtime_trace.csv").notes[0]


def test_a_table_of_the_older_rocprof_is_read(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text(OLD)
    (kernel,) = profilers.read_report(path).kernels.to_dict("records")
    assert kernel["name"] == "bodyForce(Body*, float, int)"
    assert whole_ns(kernel["duration_s"]) == 26_316_649


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"Name","Calls","TotalDurationNs"\n"HIP_API",13,458514859\n', "sums whole domains"),
        ('"Node_Id","Agent_Type","Cu_Count","Name"\n1,"GPU",304,"gfx942"\n', "describes devices"),
        ('{"rocprofiler-sdk-tool": [{"metadata": {}}]}', "lists no kernels"),
        ('"Kernel_Name","Start_Timestamp","End_Timestamp"\n"k",5,4\n', "ends before it starts"),
        ('"Kernel_Name","Start_Timestamp","End_Timestamp"\n"k",x,4\n', "'x' stands in the column"),
    ],
)
def test_what_lists_no_kernels_is_refused_by_its_name(text, message, tmp_path):
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(ReportError, match=message):
        profilers.read_report(path)


@pytest.mark.parametrize("tracks", [False, True])
def test_a_database_says_what_the_trace_of_the_same_run_says(
    tracks, report_of, report_path, tmp_path
):
    rows = kernel_rows(report_path(TRACE))
    report = profilers.read_report(write_rocpd(tmp_path / "run.db", rows, tracks=tracks))
    ours, theirs = report.kernels, report_of(TRACE).kernels
    assert report.format == "rocpd"
    for column in ("name", "device", "stream", "grid", "block"):
        assert ours[column].tolist() == theirs[column].tolist()
    assert [whole_ns(s) for s in ours["duration_s"]] == [whole_ns(s) for s in theirs["duration_s"]]
    assert [whole_ns(s) for s in ours["start_s"]] == [whole_ns(s) for s in theirs["start_s"]]
    assert [device.name for device in report.devices] == ["AMD Instinct MI300X"]


def test_a_database_of_several_captures_holds_them_all(report_path, tmp_path):
    rows = kernel_rows(report_path(TRACE))
    both = (CAPTURE, "_0000ddb5_8903_7903_b269_cd8d3745bb8b")
    path = write_rocpd(tmp_path / "two.db", rows, tracks=True, captures=both)
    report = profilers.read_report(path)
    assert len(report.kernels) == 2 * KERNELS
    assert set(report.kernels["process"]) == {0, 1}
    assert whole_ns(profilers.summarise(report)["kernel_time_s"]) == 2 * TOTAL_NS


def test_a_database_without_dispatches_is_refused(tmp_path):
    with sqlite3.connect(tmp_path / "run.db") as database:
        database.execute("CREATE TABLE rocpd_string_1 (id INTEGER PRIMARY KEY, string TEXT)")
    with pytest.raises(ReportError, match="no table of kernel dispatches"):
        profilers.read_report(tmp_path / "run.db")


def test_a_folder_names_the_devices_of_its_traces(report_path, tmp_path):
    (tmp_path / "69_kernel_trace.csv").write_bytes(report_path(TRACE).read_bytes())
    (tmp_path / "69_agent_info.csv").write_text(
        '"Node_Id","Logical_Node_Id","Agent_Type","Cu_Count","Name","Product_Name"\n'
        '0,0,"CPU",0,"AMD EPYC 9654","AMD EPYC 9654"\n'
        '1,1,"GPU",304,"gfx942","AMD Instinct MI300X"\n'
    )
    found = read_folder(tmp_path)
    (report,) = found.reports
    assert [(d.index, d.name) for d in report.devices] == [(1, "AMD Instinct MI300X")]
    assert list(found.left_out) == ["69_agent_info.csv"]


def test_the_tools_own_json_says_what_its_table_says(report_path, tmp_path):
    """Symbols, agents and dispatches refer to each other by numbers; nothing of the host is
    stored.
    """
    with report_path(TRACE).open(newline="") as file:
        rows = list(csv.DictReader(file))
    kernels = list(dict.fromkeys(row["Kernel_Name"] for row in rows))

    def size(row, of):
        return {axis.lower(): int(row[f"{of}_Size_{axis}"]) for axis in "XYZ"}

    agents = sorted({int(re.sub(r"\D", "", row["Agent_Id"])) for row in rows})
    process = {
        "metadata": {"node": {"hostname": "secret"}, "command": ["secret"]},
        "agents": [{"id": {"handle": 7000 + at}, "type": 2, "node_id": at, "name": "gfx942",
                    "product_name": "AMD Instinct MI300X", "cu_count": 304} for at in agents],
        "kernel_symbols": [{"kernel_id": at, "kernel_name": f"{name}.kd",
                            "demangled_kernel_name": name} for at, name in enumerate(kernels)],
        "buffer_records": {"kernel_dispatch": [{
            "start_timestamp": int(row["Start_Timestamp"]),
            "end_timestamp": int(row["End_Timestamp"]),
            "dispatch_info": {
                "agent_id": {"handle": 7000 + int(re.sub(r"\D", "", row["Agent_Id"]))},
                "queue_id": {"handle": 3}, "kernel_id": kernels.index(row["Kernel_Name"]),
                "grid_size": size(row, "Grid"), "workgroup_size": size(row, "Workgroup"),
            },
        } for row in rows]},
    }  # fmt: skip
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"rocprofiler-sdk-tool": [process]}))
    told, table = profilers.read_report(path), profilers.read_report(report_path(TRACE))
    for column in ("name", "start_s", "duration_s", "grid", "block", "device", "operator_class"):
        assert told.kernels[column].astype(object).tolist() == (
            table.kernels[column].astype(object).tolist()
        ), column
    assert told.devices[0].name == "AMD Instinct MI300X" and told.devices[0].units == 304
    assert "secret" not in repr(told)
    process["buffer_records"]["kernel_dispatch"][0]["end_timestamp"] = 1
    path.write_text(json.dumps({"rocprofiler-sdk-tool": [process]}))
    with pytest.raises(ReportError, match="ends before it starts"):
        profilers.read_report(path)
