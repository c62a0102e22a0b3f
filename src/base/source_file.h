// A text file that need not exist on disk: a kernel source embedded in the library, a generated header.
#pragma once

#include <string_view>

namespace scalegemm::base {

// `path` is relative with '/' between folders and is what an #include names ("cpu/abi.h"). Both views
// belong to whoever made the file; embedded sources live as long as the process.
struct SourceFile {
  std::string_view path;
  std::string_view content;
};

}  // namespace scalegemm::base
