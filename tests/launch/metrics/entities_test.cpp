#include "launch/metrics/entities.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

const std::vector<std::string> kNames = {"O", "B-X", "I-X", "B-Y", "I-Y", "S-X", "E-X"};
constexpr int32_t O = 0, BX = 1, IX = 2, BY = 3, IY = 4, SX = 5, EX = 6;
constexpr int32_t X = 0, Y = 1;

std::vector<Entity> find(const std::vector<int32_t>& labels) {
  return EntityLabels(kNames).find(labels);
}

// As seqeval.metrics.sequence_labeling.get_entities does.
TEST(Entities, AreThoseOfSeqeval) {
  using Entities = std::vector<Entity>;
  EXPECT_EQ(find({}), Entities{});
  EXPECT_EQ(find({O, O}), Entities{});
  EXPECT_EQ(find({BX, IX, O, BY}), (Entities{{X, 0, 2}, {Y, 3, 4}}));
  EXPECT_EQ(find({BX, BX, IX}), (Entities{{X, 0, 1}, {X, 1, 3}}));
  EXPECT_EQ(find({O, IX, IX, IY, IY}), (Entities{{X, 1, 3}, {Y, 3, 5}}));
  EXPECT_EQ(find({BX, IY, IX}), (Entities{{X, 0, 1}, {Y, 1, 2}, {X, 2, 3}}));
  EXPECT_EQ(find({SX, SX, IX, EX, IX}), (Entities{{X, 0, 1}, {X, 1, 2}, {X, 2, 4}, {X, 4, 5}}));
  EXPECT_EQ(find({BX, EX, EX, BY}), (Entities{{X, 0, 2}, {X, 2, 3}, {Y, 3, 4}}));
}

TEST(Entities, NeedNamesOfEntities) {
  EXPECT_TRUE(EntityLabels::are_entities(kNames));
  EXPECT_TRUE(EntityLabels::are_entities({"B-new york", "O"}));
  EXPECT_FALSE(EntityLabels::are_entities({}));
  EXPECT_FALSE(EntityLabels::are_entities({"O", "O"}));
  EXPECT_FALSE(EntityLabels::are_entities({"NOUN", "VERB"}));
  EXPECT_FALSE(EntityLabels::are_entities({"O", "B-X", "X"}));
  EXPECT_FALSE(EntityLabels::are_entities({"O", "B-"}));
}

}  // namespace
}  // namespace tessera
