"""Kernel names from the engines' source code get the right class, and mangled names are decoded."""

import csv
import random
from pathlib import Path

import pytest

from profilers.operators.demangle import demangled
from profilers.operators.kernel_classes import UNCLASSIFIED, class_of_name
from tests.draws import cases, seed
from tests.rules import for_every

#: Names with their source file, with templates expanded as by compilers.
NAMES = Path(__file__).with_name("kernel_names.csv")
with NAMES.open(newline="") as opened:
    ROWS = list(csv.DictReader(opened, delimiter="|"))
CK_NORM = (
    "_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_27Rmsnorm2dFwdPipelineOnePassINS_27Rmsnorm2dFwd"
    "PipelineProblemIDF16_DF16_fDF16_DF16_DF16_ffNS_19Generic2dBlockShapeINS_8sequenceIJLi1ELi3072"
    "EEEENS5_IJLi1ELi128EEEENS5_IJLi1ELi8EEEEEENS_18Rmsnorm2dFwdTraitsILb1ELb0ELb0ELb0ELNS_21Rmsno"
    "rm2dFusedAddEnumE0EEEEEEEEEEEvv"
)


@for_every(ROWS)
def test_kernels_of_the_engines_sources_have_their_class(row):
    assert (class_of_name(row["name"]) or UNCLASSIFIED) == row["operator_class"]


@pytest.mark.parametrize(
    ("mangled", "readable"),
    [  # the output of llvm-cxxfilt, without return type and parameters
        ("_ZN7ck_tile6kentryILi1ENS_13FmhaFwdKernelEEEvv",
         "ck_tile::kentry<1, ck_tile::FmhaFwdKernel>"),
        ("_ZN7ck_tile6kentryILi256E25ProductionTransposeKernelIDF16_Lb1EEJPKDF16_PDF16_iiEEEvDpT1_",
         "ck_tile::kentry<256, ProductionTransposeKernel<_Float16, true>, _Float16 const*, "
         "_Float16*, int, int>"),
        ("_ZN5aiter44f4gemm_bf16_per1x32Fp4_noBpreShuffle_256x256E",
         "aiter::f4gemm_bf16_per1x32Fp4_noBpreShuffle_256x256"),
        ("_ZSt16__ostream_insertIcSt11char_traitsIcEERSt13basic_ostreamIT_T0_ES6_PKS3_l",
         "std::__ostream_insert<char, std::char_traits<char>>"),
        ("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIlEESt5arrayIPcLm1EEE"
         "EviT0_T1_",
         "at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<long>, "
         "std::array<char*, 1>>"),
        (CK_NORM,
         "ck_tile::kentry<1, ck_tile::Rmsnorm2dFwd<ck_tile::Rmsnorm2dFwdPipelineOnePass<ck_tile::"
         "Rmsnorm2dFwdPipelineProblem<_Float16, _Float16, float, _Float16, _Float16, _Float16, "
         "float, float, ck_tile::Generic2dBlockShape<ck_tile::sequence<1, 3072>, "
         "ck_tile::sequence<1, 128>, ck_tile::sequence<1, 8>>, ck_tile::Rmsnorm2dFwdTraits<true, "
         "false, false, false, (ck_tile::Rmsnorm2dFusedAddEnum)0>>>>>"),
        ("_Z3foov.kd", "foo"),
        ("_ZN3FooC1Ev", "Foo::Foo"),
        ("_ZN3FooIiED2Ev", "Foo<int>::~Foo"),
        ("_Z1fIDv4_fEvv", "f<float vector[4]>"),
        ("_Z1fIDF32_Evv", "f<_Float32>"),
        ("_Z1fIA4_iEvv", "f<int [4]>"),
        ("_Z1fIDp1AEvv", "f<A...>"),
        ("_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfZNS0_6lambdaEvEUlffE_EEEEvT1_",
         "at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
         "at::native::lambda::{lambda}>>"),
        ("_ZN1AUt_1fEv", "A::{unnamed}::f"),
    ],
)  # fmt: skip
def test_mangled_names_read_as_the_compilers_tool_reads_them(mangled, readable):
    assert demangled(mangled) == readable


@for_every(["_Z1fIDqEvv", "_Z1fIS9_Evv", "_Z1fI!Evv"])
def test_what_is_no_type_of_the_grammar_breaks_the_name_off(mangled):
    assert demangled(mangled) == "f<…>"


def test_a_name_that_a_profiler_cut_is_read_up_to_the_cut():
    cut = "_ZN7ck_tile6kentryILi2ENS_22FmhaBwdOGradDotOKernelIN..."
    assert demangled(cut) == "ck_tile::kentry<2, ck_tile::FmhaBwdOGradDotOKernel<…>>"


@for_every(["", "saxpy", "_Z", "_ZN", "ampere_sgemm_128x64_nn", "_Zebra"])
def test_what_is_not_mangled_stays_as_it_is(name):
    assert demangled(name) == name


@pytest.mark.draws
def test_no_mutation_of_a_mangled_name_is_long_or_raises():
    chance = random.Random(seed(7))
    for _ in range(cases(5000)):
        text = list(CK_NORM)
        for _ in range(chance.randrange(5)):
            text[chance.randrange(2, len(text))] = chance.choice("_ZNSITEJLXF0123456789abcPRKDZ")
        assert len(demangled("".join(text[: chance.randrange(2, len(text))]))) < 20_000


@pytest.mark.parametrize(
    "hostile",
    [
        "_ZN" + "S_" * 4000,
        "_Z" + "P" * 4000 + "i",
        "_ZN1a" + "I" * 4000,
        "_ZN1aI" + "".join(f"1bIS{at:X}_S{at:X}_E" for at in range(1000)),
    ],
)
def test_a_name_that_repeats_itself_is_bounded(hostile):
    assert len(demangled(hostile)) < 20_000


def test_reports_show_names_as_they_read(report_of):
    vllm = report_of("torch/inference_vllm_decode_full_graph_execution.json.gz")
    names = set(vllm.kernels["name"].astype(str))
    assert not any(name.startswith("_Z") for name in names)
    assert any(name.startswith("ck_tile::kentry<1, ck_tile::Rmsnorm2dFwd<") for name in names)
