#include "elf_file.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace scalegemm::bundle {
namespace {

// A structure at an offset of a file, or nothing where it would not fit.
template <class T>
std::optional<T> at(std::string_view file, uint64_t offset) {
  T value;
  if (offset > file.size() || file.size() - offset < sizeof value) {
    return std::nullopt;
  }
  std::memcpy(&value, file.data() + offset, sizeof value);
  return value;
}

std::string_view text_at(std::string_view table, uint64_t offset) {
  if (offset >= table.size()) {
    return {};
  }
  const std::string_view rest = table.substr(offset);
  return rest.substr(0, rest.find('\0'));
}

std::vector<ElfSymbol> read_symbols(const ElfSection& section, const std::vector<ElfSection>& sections) {
  std::vector<ElfSymbol> out;
  const std::string_view names = section.link < sections.size() ? sections[section.link].bytes : "";
  for (uint64_t offset = 0; const auto raw = at<Elf64_Sym>(section.bytes, offset); offset += sizeof *raw) {
    const unsigned char bind = ELF64_ST_BIND(raw->st_info);
    const unsigned char visibility = ELF64_ST_VISIBILITY(raw->st_other);
    out.push_back({.name = std::string(text_at(names, raw->st_name)),
                   .value = raw->st_value,
                   .size = raw->st_size,
                   .section = raw->st_shndx,
                   .defined = raw->st_shndx != SHN_UNDEF,
                   .global = bind != STB_LOCAL,
                   .unique = bind == STB_GNU_UNIQUE,
                   .hidden = visibility == STV_HIDDEN || visibility == STV_INTERNAL});
  }
  return out;
}

}  // namespace

const ElfSection* ElfFile::find(std::string_view section) const {
  const auto found =
      std::find_if(sections.begin(), sections.end(), [&](const ElfSection& s) { return s.name == section; });
  return found != sections.end() ? &*found : nullptr;
}

Result<ElfFile> read_elf(std::string_view file) {
  const auto header = at<Elf64_Ehdr>(file, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
      header->e_shentsize != sizeof(Elf64_Shdr)) {
    return corrupt(
        "needs a 64-bit little-endian ELF file with section headers, has {} bytes of something else",
        file.size());
  }
  ElfFile out;
  std::vector<uint32_t> names;
  std::vector<uint32_t> types;
  for (uint64_t i = 0; i < header->e_shnum; ++i) {
    const auto raw = at<Elf64_Shdr>(file, header->e_shoff + i * sizeof(Elf64_Shdr));
    if (!raw) {
      return corrupt("section {}: its header lies outside the file", i);
    }
    const bool has_bytes = raw->sh_type != SHT_NOBITS && raw->sh_type != SHT_NULL;
    if (has_bytes && (raw->sh_offset > file.size() || raw->sh_size > file.size() - raw->sh_offset)) {
      return corrupt("section {}: it lies outside the file", i);
    }
    out.sections.push_back({.name = {},
                            .bytes = has_bytes ? file.substr(raw->sh_offset, raw->sh_size) : "",
                            .link = raw->sh_link});
    names.push_back(raw->sh_name);
    types.push_back(raw->sh_type);
  }
  const std::string_view table =
      header->e_shstrndx < out.sections.size() ? out.sections[header->e_shstrndx].bytes : "";
  for (size_t i = 0; i < out.sections.size(); ++i) {
    out.sections[i].name = text_at(table, names[i]);
  }
  for (size_t i = 0; i < out.sections.size(); ++i) {
    if (types[i] == SHT_SYMTAB) {
      out.symbols = read_symbols(out.sections[i], out.sections);
    } else if (types[i] == SHT_DYNSYM) {
      out.dynamic_symbols = read_symbols(out.sections[i], out.sections);
    }
  }
  return out;
}

// Records of .nv.info: format, attribute, then two bytes that are a value, or with format 4 the number of
// bytes that follow. EIATTR_REGCOUNT holds the index of a symbol and a count.
std::vector<EntryRegisters> cubin_registers(const ElfFile& cubin) {
  constexpr uint8_t kSized = 4;
  constexpr uint8_t kRegCount = 0x2f;
  std::vector<EntryRegisters> out;
  const ElfSection* info = cubin.find(".nv.info");
  uint64_t offset = 0;
  while (info != nullptr) {
    const auto format = at<uint8_t>(info->bytes, offset);
    const auto attribute = at<uint8_t>(info->bytes, offset + 1);
    const auto size = at<uint16_t>(info->bytes, offset + 2);
    if (!format || !attribute || !size) {
      break;
    }
    const auto symbol = at<uint32_t>(info->bytes, offset + 4);
    const auto count = at<uint32_t>(info->bytes, offset + 8);
    if (*format == kSized && *attribute == kRegCount && symbol && count && *symbol < cubin.symbols.size()) {
      out.push_back({cubin.symbols[*symbol].name, *count});
    }
    offset += 4U + (*format == kSized ? *size : 0U);
  }
  std::sort(out.begin(), out.end(),
            [](const EntryRegisters& a, const EntryRegisters& b) { return a.entry < b.entry; });
  return out;
}

}  // namespace scalegemm::bundle
