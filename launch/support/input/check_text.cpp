#include "launch/support/input/check_text.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/error.h"

namespace tessera {
namespace {

/// The bytes by which a kind of file is known, and their place.
struct FileMagic {
  size_t at;
  std::string_view bytes;
  const char* what;
};

constexpr FileMagic kNoText[] = {
    {257, "ustar",
     "a tar archive, not text: pass the texts in it, as with tar -xOf FILE | tessera prepare "
     "--input -"},
    {0, "%PDF-", "a PDF file, not text: convert it, as with pdftotext"},
    {0,
     "\x7F"
     "ELF",
     "a program, not text"},
    {0, "\x89PNG", "a PNG image, not text"},
    {0, "\xFF\xD8\xFF", "a JPEG image, not text"},
    {0, "GIF8", "a GIF image, not text"},
    {0, "7z\xBC\xAF", "a 7z archive, not text: unpack it"},
    {0, "\x93NUMPY", "an array of NumPy, not text"},
    {0, "\x89HDF", "an HDF5 file, not text"},
    {0, "SQLite format 3", "an SQLite database, not text"},
    {0, "ARROW1", "an Arrow file, not text: write it as Parquet or JSON lines"},
};

}  // namespace

void check_text(const std::string& path, std::string_view start) {
  // A text may also start with "GIF8", but such a file has other bytes than those of ASCII text.
  const bool is_ascii = std::ranges::none_of(start.substr(0, 1024), [](char c) {
    return c < ' ' && std::string_view("\t\n\v\f\r").find(c) == std::string_view::npos;
  });
  for (const FileMagic& magic : kNoText) {
    const bool is_it =
        !is_ascii && start.size() > magic.at && start.substr(magic.at).starts_with(magic.bytes);
    require(!is_it, "{}: is {}", path, magic.what);
  }
  constexpr int64_t kMostZeros = 100;  // random bytes have one in 256
  const bool is_binary = std::ranges::count(start, '\0') * kMostZeros > std::ssize(start);
  require(!is_binary, "{}: is binary, not text: more than 1% of its first bytes are zero", path);
}

}  // namespace tessera
