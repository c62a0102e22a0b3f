#include "base/dynlib.h"

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>

#include <cstring>

namespace scalegemm::base {
namespace {

Result<void*> open_handle(const std::string& path, const std::string& name, int flags) {
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | flags);
  if (handle == nullptr) {
    const char* reason = ::dlerror();
    return make_error(Code::kNotBuilt, "cannot open library {}: {}", name,
                      reason != nullptr ? reason : "no reason given");
  }
  return handle;
}

// The loader maps segments as the headers say; one that ends past the file raises SIGBUS when it is touched.
// So a cut file is found here.
bool is_whole_elf(std::string_view bytes) {
  Elf64_Ehdr header;
  if (bytes.size() < sizeof header) {
    return false;
  }
  std::memcpy(&header, bytes.data(), sizeof header);
  const uint64_t size = bytes.size();
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phoff > size ||
      header.e_phnum > (size - header.e_phoff) / sizeof(Elf64_Phdr)) {
    return false;
  }
  for (size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, bytes.data() + header.e_phoff + i * sizeof segment, sizeof segment);
    if (segment.p_offset > size || segment.p_filesz > size - segment.p_offset) {
      return false;
    }
  }
  return header.e_phnum > 0;
}

}  // namespace

Result<DynLib> DynLib::open(const std::string& name) {
  DynLib library;
  SCALEGEMM_ASSIGN_OR_RETURN(library.handle_, open_handle(name, name, RTLD_NODELETE));
  return library;
}

Result<DynLib> DynLib::open_bytes(std::string_view bytes, const std::string& name) {
  if (!is_whole_elf(bytes)) {
    return make_error(Code::kCorruptData, "library {}: its {} bytes are not a whole 64-bit ELF file", name,
                      bytes.size());
  }
  // memfd names are at most 249 bytes long.
  UniqueFd memory(::memfd_create(name.substr(0, 200).c_str(), MFD_CLOEXEC));
  if (!memory) {
    return errno_status("create memory for", name);
  }
  SCALEGEMM_RETURN_IF_ERROR(write_all(memory.get(), bytes, name));
  DynLib library;
  // The loader knows libraries by path: the descriptor stays open as long as the library, so that no other
  // library can get the same /proc/self/fd path meanwhile.
  SCALEGEMM_ASSIGN_OR_RETURN(library.handle_,
                             open_handle(fmt::format("/proc/self/fd/{}", memory.get()), name, 0));
  library.memory_ = std::move(memory);
  return library;
}

DynLib::~DynLib() {
  if (handle_ != nullptr) {
    ::dlclose(handle_);
  }
}

DynLib& DynLib::operator=(DynLib&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(memory_, other.memory_);
  return *this;
}

void* DynLib::symbol(const char* name) const {
  return handle_ != nullptr ? ::dlsym(handle_, name) : nullptr;
}

}  // namespace scalegemm::base
