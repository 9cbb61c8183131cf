#include "launch/support/files/replace.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "launch/support/files/piece_reader.h"
#include "launch/support/files/whole_files.h"
#include "launch/support/text/html.h"
#include "tests/support/expect_error.h"
#include "tests/support/test_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using test::expect_error;

TEST(Replace, ReplacesOnlyWhatItMay) {
  const test::TestFolder folder;
  const std::string path = folder / "output";
  const auto write = [&](Replace replace) { write_whole_files({{path, "new"}}, replace); };
  write(Replace::refuse);
  expect_error([&] { write(Replace::refuse); }, {path.c_str(), "exists", "--overwrite"});
  write(Replace::overwrite);
  fs::create_symlink("nothing", folder / "link");
  expect_error([&] { require_replaceable(folder / "link", Replace::refuse); }, {"exists"});
}

TEST(Replace, NeverReplacesAnInput) {
  const test::TestFolder folder;
  const std::string input = folder / "input";
  std::ofstream(input) << "text";
  fs::create_symlink("input", folder / "link");
  fs::create_hard_link(input, folder / "hard");
  fs::create_hard_link(input, folder / "staged.tmp");
  PieceReader(input).next();
  for (const char* name : {"input", "link", "hard", "staged", "./input"}) {
    const std::string path = folder / name;
    expect_error([&] { write_whole_files({{path, "new"}}, Replace::overwrite); }, {"reads it"});
  }
  EXPECT_EQ(fs::file_size(input), 4u);
  std::ofstream(folder / "other") << "text";
  write_whole_files({{folder / "other", "new"}}, Replace::overwrite);
}

TEST(Replace, NeverReplacesWhatIsNoFile) {
  const test::TestFolder folder;
  fs::create_directory(folder / "folder");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0666), 0);
  for (const std::string& path :
       {folder / "folder", folder / "pipe", std::string("/dev/null"), std::string("/dev/stdout")}) {
    struct stat status = {};
    if (::stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode)) continue;
    for (const Replace replace : {Replace::refuse, Replace::overwrite, Replace::own}) {
      expect_error([&] { require_replaceable(path, replace); }, {path.c_str()});
    }
  }
}

TEST(Replace, KnowsPagesOfTessera) {
  const test::TestFolder folder;
  std::ofstream(folder / "own.html") << page_start("a run", "");
  std::ofstream(folder / "other.html") << "<!DOCTYPE html>\n<html>";
  EXPECT_EQ(replace_page(folder / "own.html", false), Replace::overwrite);
  EXPECT_EQ(replace_page(folder / "other.html", false), Replace::refuse);
  EXPECT_EQ(replace_page(folder / "other.html", true), Replace::overwrite);
}

}  // namespace
}  // namespace tessera
