#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>

#include "launch/support/text/number_text.h"
#include "tests/launch/config/support.h"

namespace tessera {
namespace {

TEST(ConfigNumbers, ParsesDecimalIntegers) {
  EXPECT_EQ(parse_integer("0"), 0);
  EXPECT_EQ(parse_integer("-0"), 0);
  EXPECT_EQ(parse_integer("+12"), 12);
  EXPECT_EQ(parse_integer("-7"), -7);
  EXPECT_EQ(parse_integer("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(parse_integer("-9223372036854775808"), INT64_MIN);
}

TEST(ConfigNumbers, AcceptsOnlyExactExponents) {
  EXPECT_EQ(parse_integer("1e6"), 1'000'000);
  EXPECT_EQ(parse_integer("25E+3"), 25'000);
  EXPECT_EQ(parse_integer("-9e18"), -9'000'000'000'000'000'000);
  EXPECT_EQ(parse_integer("0e2000000000"), 0);
  for (const char* text :
       {"1e19", "93e17", "1e-2", "1.5e3", "1e", "1e+", "e6", "1e6e2", "1e 6", "1e99999999999"}) {
    EXPECT_EQ(parse_integer(text), std::nullopt) << text;
  }
}

TEST(ConfigNumbers, RejectsNonIntegers) {
  for (const char* text : {"",
                           "+",
                           "-",
                           "--1",
                           "+-1",
                           "1.0",
                           "1.",
                           "1_000",
                           "1,000",
                           "0x10",
                           "0o7",
                           "010",
                           "00",
                           "9223372036854775808",
                           "-9223372036854775809",
                           " 1",
                           "1 ",
                           "one",
                           "true",
                           "٣"}) {
    EXPECT_EQ(parse_integer(text), std::nullopt) << text;
  }
}

TEST(ConfigNumbers, AcceptsOnlyFiniteDecimals) {
  EXPECT_EQ(parse_number("1"), 1.0);
  EXPECT_EQ(parse_number("+.5"), 0.5);
  EXPECT_EQ(parse_number("-2."), -2.0);
  EXPECT_EQ(parse_number("3.0e-4"), 3e-4);
  EXPECT_EQ(parse_number("1E6"), 1e6);
  for (const char* text : {"",       ".",    "-",    "e5",    "1e",    "1e+",  "1e400",    "-1e400",
                           "1e-400", "inf",  "nan",  ".inf",  "-.Inf", ".nan", "infinity", "1_0.5",
                           "0x1p3",  "01.5", "1.5f", "1.2.3", "1,5",   "1 ",   " 1",       "+-1"}) {
    EXPECT_EQ(parse_number(text), std::nullopt) << text;
  }
}

TEST(ConfigNumbers, WritesNumbersForYaml11) {
  EXPECT_EQ(number_text(0.0), "0.0");
  EXPECT_EQ(number_text(1.0), "1.0");
  EXPECT_EQ(number_text(0.1), "0.1");
  EXPECT_EQ(number_text(1e-5), "1.0e-5");
  EXPECT_EQ(number_text(2.5e-6), "2.5e-6");
  EXPECT_EQ(number_text(1e22), "1.0e+22");
  EXPECT_EQ(number_text(-1e-100), "-1.0e-100");
  EXPECT_EQ(number_text(1000.0), "1000.0");
}

TEST(ConfigNumbers, RoundTripsDoubles) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    const double value = std::bit_cast<double>(random());
    if (!std::isfinite(value)) continue;
    EXPECT_EQ(parse_number(number_text(value)), value) << number_text(value);
  }
  using Limits = std::numeric_limits<double>;
  for (const double value : {Limits::max(), Limits::min(), Limits::denorm_min(), 1.0 / 3.0}) {
    EXPECT_EQ(parse_number(number_text(value)), value);
  }
}

}  // namespace
}  // namespace tessera
