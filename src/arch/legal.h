// legal(spec): may this spec exist on its target? The rules read the tables of this room; nothing else in
// the library decides it. An illegal spec is never generated.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "arch/cpu_family.h"
#include "spec/decline.h"
#include "spec/kernel_spec.h"
#include "spec/problem.h"

namespace scalegemm::arch {

// Nothing, or the first rule that the spec breaks, with its name in `kernel`.
std::optional<Decline> illegal(const KernelSpec& spec);

// The same as a Status (kUnsupported).
Status legal(const KernelSpec& spec);

// Does a legal GPU kernel take the problem? It must be compiled for exactly its types, scales and layouts.
std::optional<Decline> gpu_declines(const KernelSpec& spec, const Problem& problem);

// Specs that a GPU target might have for a problem: every tile of the target's table with every instruction
// that the operands feed. Some may be illegal: ask illegal(), whose answer is worth showing.
std::vector<KernelSpec> gpu_candidates(Target target, const Problem& problem);

// The row of a GPU spec's instruction, or null where there is none.
const Instruction* instruction_of(const KernelSpec& spec);

// Bytes of shared memory (LDS) that the stages of a GPU spec take: codes of A and B, in their stored type.
int64_t stage_bytes(const KernelSpec& spec);

// f32 registers a thread holds for sums: the tile over the consumer threads, twice when partial sums are
// promoted outside the matrix accumulator.
int64_t accumulator_registers(const KernelSpec& spec);

}  // namespace scalegemm::arch
