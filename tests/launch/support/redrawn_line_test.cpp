#include "launch/support/text/redrawn_line.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>

namespace tessera {
namespace {

using std::chrono::milliseconds;

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

/// What a line writes that draws "a" and "b" if they are due.
std::string written(bool watched, std::optional<milliseconds> between_lines) {
  const std::unique_ptr<std::FILE, Close> file(std::tmpfile());
  {
    RedrawnLine line(::fileno(file.get()), watched, between_lines);
    for (const char* text : {"a", "b"}) {
      if (line.is_due()) line.draw(text);
    }
  }
  std::string text(100, '\0');
  std::rewind(file.get());
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  return text;
}

TEST(RedrawnLine, RedrawsOnTerminalsAndPrintsLinesElsewhere) {
  EXPECT_EQ(written(true, {}), "\r\033[Ka\r\033[K");  // "b" is not yet due
  EXPECT_EQ(written(false, {}), "");
  EXPECT_EQ(written(false, milliseconds(0)), "a\nb\n");
  EXPECT_EQ(written(false, milliseconds(100000)), "") << "the first line is due after the interval";
}

}  // namespace
}  // namespace tessera
