// Files that a person asked for: complete or absent, and as readable as the umask says.
#pragma once

#include <string>
#include <string_view>

namespace scalegemm::harness {

// Writes beside the path and renames; a device or pipe (/dev/stdout) is written to. Throws Error with the
// path and the system's reason.
void write_file(const std::string& path, std::string_view contents);

// Throws now, not after a long run, what write_file would. An empty path and "-" are fine.
void require_writable(const std::string& path);

}  // namespace scalegemm::harness
