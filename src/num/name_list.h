#pragma once

#include <span>
#include <string>

#include "num/dtype.h"

namespace scalegemm::num {

// "f32, bf16": for messages.
inline std::string name_list(std::span<const DType> types) {
  std::string list;
  for (const DType type : types) {
    list += list.empty() ? "" : ", ";
    list += name(type);
  }
  return list;
}

}  // namespace scalegemm::num
