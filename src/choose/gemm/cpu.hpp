// Which CPU kernels compute a GEMM problem, and which of them goes first.
#pragma once

#include <span>

#include "choose/candidate.hpp"
#include "choose/refusal.hpp"
#include "spec/cpu/facts.hpp"
#include "tilesmith/gemm.hpp"

namespace tilesmith {

/// The signature of the CPU kernels that compute the problem: its epilogue in normal form. What the problem does not
/// read has the types that kernels are made with. Errors: unsupported, when the epilogue does not fit.
[[nodiscard]] Result<GemmSignature> cpu_signature_of(const GemmProblem& problem);

/// The kernels of every level the machine runs whose signature is exactly the problem's and that compute it, by
/// predicted seconds; of a packed B those that read it as it was packed. Where there is none, the levels' generic
/// kernels. Errors: unsupported, of a packed B, with the first refusing rule and its figures, when there is none.
[[nodiscard]] Result<Ranking> rank(const CpuFacts& facts, const GemmProblem& problem);

/// What the model counts of the kernels that rank() lists.
[[nodiscard]] std::vector<ModelTerms> model_terms(const CpuFacts& facts, const GemmProblem& problem);

/// Of the kernels that are linked into the library those that run on the machine and compute the problem, by predicted
/// seconds, generic ones last.
[[nodiscard]] std::vector<Candidate> fallbacks(const CpuFacts& facts, const GemmProblem& problem,
                                               std::span<const KernelConfig> linked);

/// Whether a kernel runs on the machine and computes the problem. Errors: unsupported, invalid_argument.
[[nodiscard]] Status serves(const CpuFacts& facts, const KernelConfig& config, const GemmProblem& problem);

/// Every other config of the levels' spaces with the problem's signature, and what refused it; when its epilogue fits
/// none, a config of each instruction without it.
[[nodiscard]] Result<std::vector<Refusal>> refusals(const CpuFacts& facts, const GemmProblem& problem);

/// The kernel whose first stage packs B of the problem's order: the best blocked one of a typical GEMM of these types,
/// n and k on one thread, so that the panels' form depends on nothing else. Errors: unsupported, when no kernel
/// computes such a GEMM.
[[nodiscard]] Result<KernelConfig> packing_kernel(const CpuFacts& facts, const GemmProblem& problem);

/// Whether a kernel reads panels in the form in which `packer` writes them.
[[nodiscard]] bool reads_panels_of(const KernelConfig& reader, const KernelConfig& packer);

}  // namespace tilesmith
