#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "launch/support/files/small_file.h"
#include "launch/support/input/json_log.h"
#include "tests/support/expect_error.h"
#include "tests/support/test_folder.h"

namespace tessera {
namespace {

using test::expect_error;

TEST(SmallFile, NeitherFillsTheMemoryNorHangs) {
  const test::TestFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0666), 0);
  std::filesystem::create_symlink("/dev/zero", folder / "zeros");
  std::filesystem::create_symlink("loop", folder / "loop");
  expect_error([&] { (void)read_small_file(folder / "zeros", 100000); }, {"more than 100000"});
  expect_error([&] { (void)read_small_file(folder / "loop", 100); }, {"cannot be opened"});
  expect_error([&] { (void)read_small_file(folder / "", 100); }, {"cannot be read"});
  EXPECT_EQ(read_small_file(pipe, 100), "");  // nobody writes
  std::thread writer([&] { std::ofstream(pipe) << "key: value"; });
  EXPECT_EQ(read_small_file(pipe, 100), "key: value");
  writer.join();
  EXPECT_EQ(begin_of_file(pipe, 100), "");
}

TEST(JsonLog, SurvivesHostileLines) {
  std::string deep, text = "{\"step\": 1}\n\n[1]\n{\"a\": \n";
  for (int i = 0; i < 1000000; ++i) deep += "{\"a\":";
  text += deep + "\n" + std::string(size_t{20} << 20, 'x') + "\n{\"step\": 2}\n{\"step\": 3}";
  std::istringstream file(text);
  std::string found;
  for_each_json_line(file, [&](const JsonLogLine& line) {
    found += fmt::format("{}{}{} ", line.number, line.object.is_null() ? "-" : "+",
                         line.has_end ? "" : "cut");
  });
  EXPECT_EQ(found, "1+ 2- 3- 4- 5- 6- 7+ 8+cut ");
  EXPECT_FALSE(for_each_json_line("/dev/zero", [](const JsonLogLine&) { FAIL(); }));
  const test::TestFolder folder;
  const std::filesystem::path hole(folder / "hole");
  std::ofstream(hole) << "{}\n";
  std::filesystem::resize_file(hole, uintmax_t{1} << 40);
  int64_t lines = 0;
  for_each_json_line(hole, [&](const JsonLogLine& line) { lines = line.number; });
  EXPECT_EQ(lines, 2);
}

}  // namespace
}  // namespace tessera
