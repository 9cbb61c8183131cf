#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "launch/config/load_config.h"
#include "tests/support/expect_error.h"

namespace tessera {

/// The least that a configuration has to say.
inline const std::string kMinimal =
    "run: {dir: runs/a}\n"
    "data: {train: runs/a/text}\n"
    "batch: {global: 8, micro: 2}\n"
    "train: {steps: 10}\n";

using test::error_of;

/// What loading `yaml`, named x.yaml, complains about.
inline std::string load_error(std::string_view yaml, const std::vector<std::string>& sets = {}) {
  return error_of([&] { parse_config("x.yaml", yaml, sets); });
}

/// What loading kMinimal with this --set complains about.
inline std::string set_error(const std::string& text) { return load_error(kMinimal, {text}); }

}  // namespace tessera
