#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "models/model_config.h"

namespace tessera {

// Formats numbers for people.

/// 1234567 as "1,234,567". `number` must not be negative.
std::string grouped(int64_t number);

/// "1.5 GiB"
std::string human_bytes(size_t bytes);

/// A positive amount with three digits and a decimal prefix: "989 T", "1.50 G".
std::string human_amount(double amount);

/// A measured number with `decimals` digits after the point: "2.3457"; with an exponent where that
/// would hide it: "8.731e+17", "3.20e-06"; "NaN" or "infinite".
std::string measured(double value, int decimals = 4);

/// A fraction: "56.7%"; "undefined" for NaN, which is one of nothing.
std::string percent(double fraction);

/// "1.2 days", "1h02m", "2m03s", "4s"
std::string human_duration(double seconds);

/// "bert: 4 layers, 128 wide, 4 heads, context 64, vocabulary 2048"
std::string human_model(const ModelConfig& model);

}  // namespace tessera
