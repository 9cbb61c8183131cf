#include "launch/support/files/mapped_file.h"

#include <sys/stat.h>

#include <utility>

#include "tests/launch/data/test_files.h"

namespace tessera {
namespace {

std::string contents(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.size()};
}

TEST(MappedFile, ShowsTheBytesOfTheFile) {
  const TestFolder folder;
  const std::string bytes("a\0b\xff", 4);
  write_file(folder / "file", bytes);
  MappedFile file(folder / "file");
  EXPECT_EQ(contents(file), bytes);
  EXPECT_EQ(file.path(), folder / "file");

  MappedFile moved(std::move(file));
  EXPECT_EQ(contents(moved), bytes);
  write_file(folder / "other", "other");
  moved = MappedFile(folder / "other");
  EXPECT_EQ(contents(moved), "other");
}

TEST(MappedFile, MapsEmptyFile) {
  const TestFolder folder;
  write_file(folder / "empty", "");
  EXPECT_TRUE(MappedFile(folder / "empty").bytes().empty());
}

TEST(MappedFile, NamesUnmappableFile) {
  const TestFolder folder;
  EXPECT_TRUE(names_all(error_of([&] { MappedFile file(folder / "missing"); }),
                        {folder / "missing", "No such file or directory"}));
  EXPECT_TRUE(names_all(error_of([&] { MappedFile file(folder / "."); }), {"is a directory"}));
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_TRUE(names_all(error_of([&] { MappedFile file(folder / "pipe"); }),
                        {folder / "pipe", "not a regular file"}));
}

// Bytes between the new end and the end of its page read as 0, without a bus error.
TEST(MappedFile, TruncationIsFound) {
  const TestFolder folder;
  const std::string path = folder / "file";
  write_file(path, "0123456789");
  const MappedFile file(path);
  EXPECT_NO_THROW(require_whole_mappings());
  std::filesystem::resize_file(path, 4);
  EXPECT_TRUE(names_all(error_of([] { require_whole_mappings(); }),
                        {path, "has 4 bytes, but had 10 when it was opened"}));
  // Another file under the name is none of the mapping's.
  std::filesystem::remove(path);
  EXPECT_NO_THROW(require_whole_mappings());
  write_file(path, "0");
  EXPECT_NO_THROW(require_whole_mappings());
}

}  // namespace
}  // namespace tessera
