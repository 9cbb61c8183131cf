#include "tests/fuzz/fuzz_input.h"

#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace tessera::fuzz {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    std::string name = fs::is_directory("/dev/shm") ? "/dev/shm/" : "/tmp/";
    name += "tessera_fuzz_XXXXXX";
    expect(mkdtemp(name.data()) != nullptr, "no temporary folder");
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

}  // namespace

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz target: %s\n", what);
  std::abort();
}

std::string file_of(const std::string& name, std::string_view bytes) {
  static const Folder folder;
  std::string path = folder / name;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  expect(file.good(), "cannot write a temporary file");
  return path;
}

std::string empty_file_of(const std::string& name, size_t size) {
  std::string path = file_of(name, "");
  fs::resize_file(path, size);
  return path;
}

}  // namespace tessera::fuzz
