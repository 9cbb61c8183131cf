#include "core/exit_code.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

namespace tessera {
namespace {

TEST(MessageOf, PutsExceptionsOfLibrariesIntoWords) {
  const auto message = [](const auto& error) { return message_of(error); };
  EXPECT_EQ(message(Error("w has no elements")), "w has no elements");
  EXPECT_EQ(message(CodedError("text", ExitCode::data)), "text");
  EXPECT_EQ(message(std::bad_alloc()), "the host has too little memory: an allocation has failed");
  const auto denied = std::make_error_code(std::errc::permission_denied);
  EXPECT_EQ(message(std::filesystem::filesystem_error("cannot list", "/data", denied)),
            "/data: Permission denied");
  EXPECT_EQ(message(std::filesystem::filesystem_error("cannot rename", "/a", "/b", denied)),
            "/a, /b: Permission denied");
  EXPECT_EQ(message(std::system_error(denied, "thread")), "the system refuses: Permission denied");
  EXPECT_EQ(message(std::out_of_range("vector::at")),
            "vector::at (an error of a library; please report it)");
}

}  // namespace
}  // namespace tessera
