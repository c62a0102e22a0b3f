// Grids of cases for the tests: every scheme, layout and output type, with sizes, packings, strides, places
// and epilogues rotated through so that each meets each after a few cases; and random cases for the fuzzer.
#pragma once

#include <string>
#include <vector>

#include "harness/case.h"
#include "harness/data.h"

namespace scalegemm::harness {

// Output types that the scheme may have: int32 for unscaled int8 only.
std::vector<int32_t> output_types(const std::string& scheme);

// Case number `index` of a scheme, layout and output type: the same for the same arguments.
Case grid_case(const std::string& scheme, const std::string& layout, int32_t d_dtype, uint64_t index);

// Layouts x output types x `each` cases of a scheme.
std::vector<Case> grid_of(const std::string& scheme, int each);

// A random scheme text with random keys; it need not be legal.
std::string random_scheme(Random& random);

// A random problem of at most `most_products` products; the scheme is legal.
Case random_case(Random& random, int64_t most_products);

}  // namespace scalegemm::harness
