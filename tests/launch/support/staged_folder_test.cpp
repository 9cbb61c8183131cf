#include "launch/support/files/staged_folder.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/launch/data/test_files.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

using test::expect_error;

/// Stages folders `out` with a file "ours". Only folders without other files may be replaced.
class StagedFolderTest : public testing::Test {
 protected:
  static std::optional<std::string> keep_reason(const fs::path& folder) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (name != "ours") return "holds " + name;
    }
    return std::nullopt;
  }

  /// Writes a file into the folder `out`, which is created if necessary.
  void put(const std::string& name, const std::string& text) const {
    fs::create_directories(path_);
    write_file(path_ / name, text);
  }

  /// A staged folder whose file "ours" has this text.
  std::unique_ptr<StagedFolder> staged(bool overwrite, const std::string& text) const {
    auto folder = std::make_unique<StagedFolder>(path_, overwrite, keep_reason);
    write_file(folder->staged() / "ours", text);
    return folder;
  }

  std::string ours() const { return read_file(path_ / "ours"); }

  test::TestFolder folder_;
  fs::path path_ = folder_ / "out";
  const std::vector<std::string> alone_ = {"out"};
};

TEST_F(StagedFolderTest, GetsFinalNameWhenPublished) {
  auto folder = staged(false, "new");
  EXPECT_FALSE(fs::exists(path_));
  folder->publish();
  folder.reset();
  EXPECT_EQ(ours(), "new");
  EXPECT_EQ(folder_.names(), alone_);
  staged(true, "never published").reset();
  EXPECT_EQ(ours(), "new");
  EXPECT_EQ(folder_.names(), alone_);
}

TEST_F(StagedFolderTest, ReplacesFolderWithAndWithoutExchange) {
  for (const bool may_exchange : {true, false}) {
    put("ours", "old");
    expect_error([&] { staged(false, "new"); }, {"out already exists"});
    staged(true, "new")->publish(may_exchange);
    EXPECT_EQ(ours(), "new");
    EXPECT_EQ(folder_.names(), alone_);
  }
  auto folder = staged(true, "newer");
  fs::remove_all(path_);
  folder->publish();
  EXPECT_EQ(ours(), "newer");
}

TEST_F(StagedFolderTest, DeletesWhatAKilledProgramLeft) {
  const std::vector<std::string> leftovers = {".out.0123.unfinished", ".out.4567.replaced"};
  const std::vector<std::string> others = {".out.x.0123.unfinished", ".out.0123.mine", ".outer"};
  for (const std::string& name : leftovers)
    fs::create_directories(fs::path(folder_ / name) / "within");
  for (const std::string& name : others) fs::create_directories(folder_ / name);
  const auto expect_names = [&](std::vector<std::string> expected) {
    expected.insert(expected.end(), others.begin(), others.end());
    std::vector<std::string> found = folder_.names();
    std::ranges::sort(expected);
    std::ranges::sort(found);
    EXPECT_EQ(found, expected);
  };
  {
    // There is no `out`, so the replaced folder may be the only one.
    const auto live = staged(false, "new");
    const std::string name = live->staged().filename().string();
    expect_names({name, leftovers[1]});
    staged(false, "another").reset();
    expect_names({name, leftovers[1]});  // a live program's stays
    live->publish();
  }
  expect_names({"out", leftovers[1]});
  staged(true, "newer")->publish();
  expect_names({"out"});
}

TEST_F(StagedFolderTest, KeepsFolderCreatedMeanwhile) {
  for (const bool overwrite : {false, true}) {
    auto folder = staged(overwrite, "new");
    put("ours", "somebody else's");
    expect_error([&] { folder->publish(); }, {"cannot rename", "out"});
    folder.reset();
    EXPECT_EQ(ours(), "somebody else's");
    EXPECT_EQ(folder_.names(), alone_);
    fs::remove_all(path_);
  }
}

TEST_F(StagedFolderTest, KeepsFolderChangedMeanwhile) {
  for (const bool may_exchange : {true, false}) {
    put("ours", "old");
    auto folder = staged(true, "new");
    put("notes.txt", "mine");
    expect_error([&] { folder->publish(may_exchange); },
                 {"out holds notes.txt: nothing was deleted"});
    folder.reset();
    EXPECT_EQ(ours(), "old");
    EXPECT_EQ(read_file(path_ / "notes.txt"), "mine");
    EXPECT_EQ(folder_.names(), alone_);
    fs::remove(path_ / "notes.txt");

    folder = staged(true, "new");
    fs::remove_all(path_);
    write_file(path_, "a file");
    expect_error([&] { folder->publish(may_exchange); },
                 {"out is not a folder: nothing was deleted"});
    folder.reset();
    EXPECT_EQ(read_file(path_), "a file");
    EXPECT_EQ(folder_.names(), alone_);
    fs::remove(path_);
  }
}

TEST_F(StagedFolderTest, AllowsOnlyOnePublisher) {
  auto first = staged(false, "first");
  auto second = staged(false, "second");
  first->publish();
  expect_error([&] { second->publish(); }, {"cannot rename"});
  second.reset();
  first.reset();
  EXPECT_EQ(ours(), "first");
  EXPECT_EQ(folder_.names(), alone_);
}

}  // namespace
}  // namespace tessera
