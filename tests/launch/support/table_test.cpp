#include "launch/support/text/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "launch/support/text/human_text.h"

namespace tessera {
namespace {

TEST(Table, AlignsColumnsToWidestCell) {
  EXPECT_EQ(table({{"name", "size"}, {"a", "12345"}, {"longer", "1"}}, {1}),
            "  name     size\n"
            "  a       12345\n"
            "  longer      1\n");
  EXPECT_EQ(table({{"a", "b"}, {"1", ""}}), "  a  b\n  1\n");
}

TEST(Table, SortsNamesInNaturalOrder) {
  std::vector<std::string> names = {"blocks.10.a", "blocks.2.b", "blocks.2", "blocks.1.z", "a", ""};
  std::sort(names.begin(), names.end(), in_natural_order);
  EXPECT_EQ(names, (std::vector<std::string>{"", "a", "blocks.1.z", "blocks.2", "blocks.2.b",
                                             "blocks.10.a"}));
  EXPECT_FALSE(in_natural_order("blocks.2", "blocks.2"));
}

TEST(HumanText, FormatsMeasuredNumbersOfAnySize) {
  const std::pair<double, const char*> cases[] = {{2.34567, "2.3457"},
                                                  {-2.0, "-2.0000"},
                                                  {0.0, "0.0000"},
                                                  {0.00005, "0.0001"},
                                                  {0.000049, "4.90e-05"},
                                                  {999999.0, "999999.0000"},
                                                  {873168830182981632.0, "8.732e+17"},
                                                  {-1e300, "-1.000e+300"},
                                                  {INFINITY, "infinite"},
                                                  {-INFINITY, "-infinite"},
                                                  {-std::nan(""), "NaN"}};
  for (const auto& [value, text] : cases) EXPECT_EQ(measured(value), text);
  EXPECT_EQ(measured(0.0004, 3), "4.00e-04");
  EXPECT_EQ(percent(0.5), "50.0%");
  EXPECT_EQ(percent(std::nan("")), "undefined");
}

TEST(HumanText, FormatsNumbers) {
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1234567), "1,234,567");
  EXPECT_EQ(grouped(1000005), "1,000,005");
  EXPECT_EQ(human_bytes(512), "512 B");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_duration(103'680.0), "1.2 days");
  EXPECT_EQ(human_duration(3723.4), "1h02m");
  EXPECT_EQ(human_duration(123.0), "2m03s");
  EXPECT_EQ(human_duration(-1.0), "0s");
}

}  // namespace
}  // namespace tessera
