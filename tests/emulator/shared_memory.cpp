// Finds and fills the sections of the program that `__shared__` creates.

#include <elf.h>
#include <link.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <vector>

#include "tests/emulator/grid.h"

namespace emulator {
namespace {

struct Part {
  std::byte* data;
  size_t bytes;
};

uintptr_t load_address() {
  uintptr_t address = 0;
  // The first object is the program itself.
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        *static_cast<uintptr_t*>(out) = info->dlpi_addr;
        return 1;
      },
      &address);
  return address;
}

std::vector<Part> find_parts() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  const auto read = [&](auto* out, size_t count, uint64_t offset) {
    file.seekg(static_cast<std::streamoff>(offset));
    file.read(reinterpret_cast<char*>(out), static_cast<std::streamsize>(count * sizeof(*out)));
    if (!file) {
      std::fprintf(stderr, "emulated GPU: cannot read the sections of this program\n");
      std::abort();
    }
  };
  Elf64_Ehdr header;
  read(&header, 1, 0);
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  read(sections.data(), sections.size(), header.e_shoff);
  std::vector<char> names(sections[header.e_shstrndx].sh_size);
  read(names.data(), names.size(), sections[header.e_shstrndx].sh_offset);
  std::vector<Part> parts;
  for (const Elf64_Shdr& section : sections) {
    const std::string_view name = &names[section.sh_name];
    if (!name.starts_with("emulator_shared_")) continue;
    parts.push_back({reinterpret_cast<std::byte*>(load_address() + section.sh_addr),
                     static_cast<size_t>(section.sh_size)});
  }
  return parts;
}

}  // namespace

void poison_static_shared() {
  static const std::vector<Part> parts = find_parts();
  for (auto [data, bytes] : parts) {
    // Not memset, because AddressSanitizer would stop at the redzones between variables.
    asm volatile("rep stosb" : "+D"(data), "+c"(bytes) : "a"(0xff) : "memory");
  }
}

}  // namespace emulator
