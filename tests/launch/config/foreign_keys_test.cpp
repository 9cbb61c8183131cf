#include "launch/config/foreign_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>

#include "launch/config/schema_list.h"

namespace tessera {
namespace {

using testing::Contains;
using testing::Not;

/// The names of keys, with their section and without.
std::set<std::string> schema_names() {
  std::set<std::string> names;
  for (const SectionInfo& section : config_sections()) {
    for (const KeyInfo& key : section.keys) {
      names.insert(key.name);
      names.insert(key.full_name);
    }
  }
  return names;
}

TEST(ForeignKeys, NameSchemaKeys) {
  const std::set<std::string> schema = schema_names();
  const std::regex full_name("[a-z]+\\.[a-z_]+");
  for (const ForeignKey& foreign : foreign_keys()) {
    const std::string text = foreign.text();
    EXPECT_FALSE(foreign.key.empty() && foreign.remark.empty()) << foreign.names[0];
    for (std::sregex_iterator name(text.begin(), text.end(), full_name), end; name != end; ++name) {
      EXPECT_THAT(schema, Contains(name->str())) << text;
    }
    if (foreign.key.empty()) continue;
    EXPECT_THAT(schema, Contains(std::string(foreign.key)));
  }
}

TEST(ForeignKeys, AreUniqueAndNotInSchema) {
  const std::set<std::string> schema = schema_names();
  std::set<std::string> names;
  for (const ForeignKey& foreign : foreign_keys()) {
    EXPECT_NE(foreign.names[0], "") << foreign.text();
    for (const std::string_view each : foreign.names) {
      const std::string name(each);
      if (name.empty()) continue;
      EXPECT_THAT(schema, Not(Contains(name)));
      EXPECT_TRUE(names.insert(name).second) << name << " is listed twice";
      EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"), std::string::npos)
          << name;
      ASSERT_NE(find_foreign_key(name), nullptr) << name;
      EXPECT_EQ(find_foreign_key(name)->key, foreign.key) << name;
    }
  }
  EXPECT_EQ(find_foreign_key("zebra"), nullptr);
  EXPECT_EQ(find_foreign_key(""), nullptr);
}

}  // namespace
}  // namespace tessera
