"""Machine code of the kernels for other processors: compile it and count instructions.

These tests check that each processor has fast instructions for the vector code. Other tests check
the results on the present processor.
"""

import re
from functools import cache

import llvmlite.binding as llvm
import pytest
from llvmlite import ir
from numba import njit, types

from corrhash.kernels import simd as vectors

WORDS = types.Array(types.uint64, 2, "C")
NEAR = (WORDS, types.Array(types.int64, 3, "C"), *[types.int64] * 5, WORDS)
BLOCK = (WORDS, WORDS, *[types.int64] * 3)

X86, ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"


@pytest.fixture(scope="module", autouse=True)
def _all_processors():
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


@njit(nogil=True, boundscheck=False)
def near(table, offsets, query, n_chunks, first, last, threshold, hits):
    return vectors.mark_near(table, offsets, query, n_chunks, first, last, threshold, hits)


@njit(nogil=True, boundscheck=False)
def block(planes, query, first, threshold, ahead):
    return vectors.mark_block(planes, query, first, threshold, ahead)


@cache
def in_vectors_of(words, kernel, signature):
    """Return the LLVM code of a kernel with vectors of some number of words."""
    with pytest.MonkeyPatch.context() as patch:
        use_words(patch, words)
        fresh = njit(kernel.py_func, nogil=True, boundscheck=False)
        fresh.compile(signature)
        return fresh.inspect_llvm(signature)


def instructions(text, triple, processor):
    """Return the assembly lines of a kernel for another processor."""
    name = re.search(r'define [^@]*@"?(_ZN\w+(near|block)[^"(]+)', text).group(1)
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=processor, opt=3)
    text = re.sub(r'target triple = ".*"', f'target triple = "{triple}"', text)
    text = re.sub(r'target datalayout = ".*"', f'target datalayout = "{machine.target_data}"', text)
    module = llvm.parse_assembly(text)
    # Remove numba's reference counting, which contains instructions of the present processor.
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.name != name:
            value.linkage = "internal"
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))
    body = re.split(rf'\n"?{re.escape(name)}"?:', machine.emit_assembly(module))[1]
    lines = body.split(".Lfunc_end")[0].splitlines()
    return [line.strip() for line in lines if re.match(r"\t[a-z]", line)]


def use_words(monkeypatch, words):
    """Use vectors of some number of words, as on another processor."""
    vector = ir.VectorType(ir.IntType(64), words)
    monkeypatch.setattr(vectors, "WORDS_PER_VECTOR", words)
    monkeypatch.setattr(vectors, "_VECTOR", vector)
    monkeypatch.setattr(vectors, "_ZEROS", ir.Constant(vector, [0] * words))
    monkeypatch.setattr(vectors, "_ONES", ir.Constant(vector, [-1] * words))


@pytest.mark.parametrize(
    ("triple", "processor", "words", "adder", "most"),
    [
        (X86, "x86-64-v3", 4, r"vpxor\s.*%ymm", 220),  # AVX2: five instructions per adder
        (X86, "x86-64-v4", 8, r"vpternlog\w\s.*%zmm", 90),  # AVX-512: two, on twice as many codes
        (ARM, "generic", 4, r"(bsl|bit|bif)\s.*\.16b", 300),  # NEON: three, on half as many
        (ARM, "neoverse-v1", 4, r"eor3\s.*\.16b", 320),
    ],
)
def test_marking_64_codes_takes_few_instructions(triple, processor, words, adder, most):
    """Counting bits takes at least four instructions per code: 256, and the comparisons."""
    lines = instructions(in_vectors_of(words, near, NEAR), triple, processor)
    assert sum(re.match(adder, line) is not None for line in lines) >= 40
    assert len(lines) / words < most
    assert not any(re.match(r"(call|bl|blr)\b", line) for line in lines)


@pytest.mark.parametrize(
    ("triple", "processor", "words", "count", "prefetch"),
    [
        (X86, "x86-64-v3", 4, r"vpshufb\s.*%ymm", "prefetch"),
        (X86, "icelake-server", 8, r"vpopcntq\s.*%zmm", "prefetch"),
        (ARM, "generic", 4, r"cnt\s+v.*\.16b", "prfm"),
    ],
)
def test_single_query_counts_in_vectors_and_prefetches(triple, processor, words, count, prefetch):
    lines = instructions(in_vectors_of(words, block, BLOCK), triple, processor)
    assert sum(re.match(count, line) is not None for line in lines) >= 64 / words
    assert sum(line.startswith(prefetch) for line in lines) >= 8
