#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "core/error.h"

namespace tessera::test {

/// Returns the message of the Error that `body` throws. Fails and returns "" if it throws none.
template <typename Body>
std::string error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

/// Expects that `body` throws an Error whose message contains all `facts`.
template <typename Body>
void expect_error(Body&& body, std::initializer_list<const char*> facts) {
  try {
    body();
  } catch (const Error& error) {
    const std::string message = error.what();
    for (const char* fact : facts) {
      EXPECT_NE(message.find(fact), std::string::npos) << "no \"" << fact << "\" in: " << message;
    }
    return;
  }
  ADD_FAILURE() << "no error was thrown";
}

}  // namespace tessera::test
