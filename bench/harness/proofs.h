// The four proofs of one problem: exact, random, poison, repeat.
//
//   exact   sums that are exact in f32 in any order, distinct power-of-two scales per block: bit equality
//   random  normal and adversarial operands: |d - oracle| <= bound of every compared element
//   poison  guard bands, unreadable pages and room between rows are whole, inputs unchanged, every element of
//   D
//           written, and the bits of D are the same for two different poisons
//   repeat  20 runs give the same bits, and so do 1 and 2 threads
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/case.h"
#include "harness/instance.h"
#include "harness/oracle.h"
#include "scalegemm/scalegemm.hpp"

namespace scalegemm::harness {

enum class Proof : uint8_t { kExact, kRandom, kPoison, kRepeat };
inline constexpr int kProofs = 4;

struct ProofOptions {
  PlanChoice choice;
  int repeats = 20;
  std::function<void(Proof)> before = [](Proof) {};  // called when a proof of prove() begins
  int64_t most_products = int64_t{1} << 27;          // beyond it the oracle looks at sampled rows and columns
};

struct ProofResult {
  Proof proof = Proof::kExact;
  bool passed = false;
  std::string detail;                 // what was shown, or what is wrong
  std::optional<WrongElement> wrong;  // the first wrong element, where there is one
  double worst_ratio = 0;             // largest error over its bound (random)
};

struct ProofReport {
  std::string kernel;
  std::vector<ProofResult> results;
  bool passed() const;
};

const char* to_string(Proof proof);

// Runs all four; the case's own fill is ignored. Throws scalegemm::Error when the problem cannot be run.
ProofReport prove(const Runtime& runtime, const Case& c, const ProofOptions& options);

// One of them alone.
ProofResult prove_exact(const Runtime& runtime, const Case& c, const ProofOptions& options);
ProofResult prove_random(const Runtime& runtime, const Case& c, const ProofOptions& options);
ProofResult prove_poison(const Runtime& runtime, const Case& c, const ProofOptions& options);
ProofResult prove_repeat(const Runtime& runtime, const Case& c, const ProofOptions& options);

// One run of random data compared with the oracle: what a benchmark does before it takes a time.
ProofResult check_once(Instance& instance, int64_t most_products);

// "element (batch 0, row 3, column 17): expected 1.5, got 1.25, bound 0.01"
std::string to_string(const WrongElement& wrong);

}  // namespace scalegemm::harness
