#include "launch/support/text/print.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "core/exit_code.h"
#include "launch/support/files/file_descriptor.h"
#include "tests/support/test_folder.h"

namespace tessera {
namespace {

/// Puts another file in the place of a descriptor.
class Redirected {
 public:
  Redirected(int descriptor, int file)
      : descriptor_(descriptor), kept_(::fcntl(descriptor, F_DUPFD_CLOEXEC, 10)) {
    file < 0 ? ::close(descriptor) : ::dup2(file, descriptor);
  }
  ~Redirected() { ::dup2(kept_.get(), descriptor_); }

 private:
  int descriptor_;
  FileDescriptor kept_;
};

TEST(Print, ThrowsIfResultsAreLost) {
  const FileDescriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  for (const int file : {full.get(), -1}) {
    const Redirected stdout_is(STDOUT_FILENO, file);
    const Redirected stderr_is(STDERR_FILENO, file);
    print_error("a message to nobody {}\n", file);
    try {
      print_out("results {}\n", file);
      ADD_FAILURE() << "no error";
    } catch (const CodedError& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::output);
    }
    EXPECT_TRUE(try_to_print("progress").has_value());
  }
}

TEST(Print, IsExactInFilesOnlyWhereItSaysSo) {
  const test::TestFolder folder;
  const FileDescriptor file(::open((folder / "out").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  {
    const Redirected stdout_is(STDOUT_FILENO, file.get());
    print_out("{}|", "\x1b");
    print_exactly("\x1b\xff");
  }
  std::array<char, 16> found = {};
  const ssize_t count = ::pread(file.get(), found.data(), found.size(), 0);
  EXPECT_EQ(std::string(found.data(), static_cast<size_t>(count)), "\\x1b|\x1b\xff");
}

TEST(Print, OpensClosedStreamsInAWayThatFails) {
  const Redirected stdin_is(STDIN_FILENO, -1);
  const Redirected stdout_is(STDOUT_FILENO, -1);
  open_standard_streams();
  char byte = 0;
  EXPECT_EQ(::read(STDIN_FILENO, &byte, 1), -1);
  EXPECT_TRUE(try_to_print("x").has_value());
  const FileDescriptor next(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_GT(next.get(), STDERR_FILENO);
}

}  // namespace
}  // namespace tessera
