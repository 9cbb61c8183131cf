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

/// The shortest valid configuration.
inline const std::string kMinimal =
    "run: {dir: runs/a}\n"
    "data: {train: runs/a/text}\n"
    "batch: {global: 8, micro: 2}\n"
    "train: {steps: 10}\n";

using test::error_of;

/// The error from loading `yaml` as x.yaml.
inline std::string load_error(std::string_view yaml, const std::vector<std::string>& sets = {}) {
  return error_of([&] { parse_config("x.yaml", yaml, sets); });
}

/// The error from loading kMinimal with this --set.
inline std::string set_error(const std::string& text) { return load_error(kMinimal, {text}); }

}  // namespace tessera
