// Reads sections and symbols of 64-bit little-endian ELF files: objects, shared libraries, cubins.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace scalegemm::bundle {

struct ElfSection {
  std::string name;
  std::string_view bytes;  // empty where the file holds none
  uint32_t link = 0;
};

struct ElfSymbol {
  std::string name;
  uint64_t value = 0;  // in objects and cubins: the offset in its section
  uint64_t size = 0;
  uint16_t section = 0;
  bool defined = false;
  bool global = false;  // or weak, or unique
  bool unique = false;  // STB_GNU_UNIQUE: one in a whole process
  bool hidden = false;  // by its visibility
};

struct ElfFile {
  std::vector<ElfSection> sections;
  std::vector<ElfSymbol> symbols;          // of .symtab
  std::vector<ElfSymbol> dynamic_symbols;  // of .dynsym

  const ElfSection* find(std::string_view section) const;
};

// The views point into `file`. kCorruptData for what is no such file or points outside itself.
Result<ElfFile> read_elf(std::string_view file);

// What a cubin's code needs, of each entry point: registers of a thread (the attribute EIATTR_REGCOUNT of
// .nv.info). Empty where the cubin does not say.
struct EntryRegisters {
  std::string entry;
  uint32_t registers = 0;
};
std::vector<EntryRegisters> cubin_registers(const ElfFile& cubin);

}  // namespace scalegemm::bundle
