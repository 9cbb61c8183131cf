#include "launch/support/input/check_text.h"

#include <gtest/gtest.h>

#include "launch/data/prepare/part_reader.h"
#include "launch/tokenizers/byte_tokenizer.h"
#include "tests/launch/data/test_files.h"

namespace tessera {
namespace {

/// The texts that `prepare` and `tokenizer train` would read from a file.
void read_both_ways(const std::string& path) {
  const std::string by_training = error_of([&] {
    for_each_text(
        {path}, [](auto) {}, [] {});
  });
  const ByteTokenizer bytes;
  PartReader parts({path}, Documents::file, Sentences::none, bytes, {});
  try {
    while (parts.next()) {
    }
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), by_training);
    throw;
  }
}

TEST(CheckText, RefusesWhatIsNoText) {
  const TestFolder folder;
  const std::pair<std::string, const char*> kinds[] = {
      {std::string(257, '\0') + "ustar", "tar -xOf"},
      {"%PDF-1.7\n%\xE2\xE3", "pdftotext"},
      {"\x7F"
       "ELF\x02",
       "program"},
      {"\xFF\xD8\xFF\xE0", "JPEG"},
      {std::string(99, 'x') + '\0' + '\0', "binary"}};
  for (const auto& [start, kind] : kinds) {
    write_file(folder / "file", start);
    EXPECT_TRUE(
        names_all(error_of([&] { read_both_ways(folder / "file"); }), {folder / "file", kind}));
  }
  for (const std::string& text :
       {std::string("GIF89a and %PDF-"), std::string(200, 'x') + '\0', std::string("\xFE")}) {
    EXPECT_NO_THROW(check_text("file", text));
  }
}

}  // namespace
}  // namespace tessera
