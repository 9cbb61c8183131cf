#include "launch/config/validate.h"
#include "launch/config/write_config.h"
#include "tests/launch/config/support.h"

namespace tessera {
namespace {

using testing::HasSubstr;

RunConfig with_train(const std::string& value) {
  return parse_config("x.yaml", kMinimal, std::vector<std::string>{"data.train=" + value});
}

/// The error for these lines below "data:" in x.yaml. They start at line 3.
std::string data_error(const std::string& lines) {
  return load_error("run: {dir: a}\ndata:\n" + lines +
                    "batch: {global: 8, micro: 2}\ntrain: {steps: 10}\n");
}

TEST(ConfigBlend, ParsesMapOfPathsToWeights) {
  const DataBlend expected({{"data/books", 0.7}, {"data/web", 3.0}});
  EXPECT_EQ(with_train("{data/books: 0.7, data/web: 3}").data.train, expected);
  const RunConfig config = parse_config("x.yaml",
                                        "run: {dir: a}\n"
                                        "data:\n"
                                        "  train:\n"
                                        "    data/books: 0.7\n"
                                        "    data/web: 3\n"
                                        "  eval: {\"a: b\": 1e2}\n"
                                        "batch: {global: 8, micro: 2}\n"
                                        "train: {steps: 10}\n");
  EXPECT_EQ(config.data.train, expected);
  EXPECT_EQ(config.data.eval, DataBlend({{"a: b", 100.0}}));
  EXPECT_THAT(to_yaml(config), HasSubstr("  train: {\"data/books\": 0.7, \"data/web\": 3.0}\n"
                                         "  eval: {\"a: b\": 100.0}\n"));
}

TEST(ConfigBlend, PathIsBlendOfItself) {
  EXPECT_EQ(with_train("data/books").data.train, DataBlend("data/books"));
  EXPECT_EQ(with_train("{data/books: 1}"), with_train("data/books"));
  EXPECT_THAT(to_yaml(with_train("{data/books: 1}")), HasSubstr("  train: \"data/books\"\n"));
}

TEST(ConfigBlend, NamesInvalidWeightsAndPathsWithLines) {
  const std::string number = "must be a number from 1.0e-9 to 1.0e+9";
  for (const char* weight : {"0", "-0.5", ".nan", ".inf", "1e400", "1e10", "'1'", "[1]", "much"}) {
    EXPECT_THAT(data_error(std::string("  train:\n    a/b: 1\n    c/d: ") + weight + "\n"),
                testing::AllOf(HasSubstr("x.yaml:5:5: data.train has 'c/d', whose weight is "),
                               HasSubstr(number)))
        << weight;
  }
  EXPECT_EQ(data_error("  train:\n    a/b: 1\n    c/d:\n"),
            "x.yaml:5:5: data.train has 'c/d', whose weight is empty, but " + number);
  EXPECT_EQ(data_error("  train:\n    a/b: 1\n    c/d: 1\n    a/b: 2\n"),
            "x.yaml:6:5: data.train has 'a/b' twice: give it once, with the sum of both weights");
  EXPECT_EQ(data_error("  train: a\n  eval: {}\n"),
            "x.yaml:4:3: data.eval is an empty map, but must be text, or a map of text to weights, "
            "each a number from 1.0e-9 to 1.0e+9");
  EXPECT_THAT(data_error("  train: {\"\": 1}\n"), HasSubstr("x.yaml:3:11: data.train has the path "
                                                            "'', but a path must be text of 1 to"));
  EXPECT_THAT(set_error("data.train={a: 1, b: 0}"),
              HasSubstr("--set data.train={a: 1, b: 0}: data.train has 'b', whose weight is 0"));
}

TEST(ConfigBlend, ValidatesBlendsSetInCode) {
  RunConfig config = with_train("a");
  const auto refused = [&](std::vector<DataBlend::Part> parts) {
    config.data.train = DataBlend(std::move(parts));
    EXPECT_THAT(error_of([&] { validate(config, 1); }), HasSubstr("data.train is {"));
  };
  refused({});
  refused({{"a", 1.0}, {"a", 2.0}});
  refused({{"a", 1.0}, {"", 2.0}});
  refused({{"a", 1.0}, {"b", 0.0}});
  refused({{"a", 1.0}, {std::string(2000, 'b'), 1.0}});
  config.data.train = std::string(2000, 'b');
  EXPECT_NO_THROW(validate(config, 1));
}

TEST(ConfigBlend, RejectsFractionsThatLeaveNoTrainingData) {
  const auto config = [](const std::vector<std::string>& sets) {
    return parse_config("x.yaml", kMinimal, sets);
  };
  EXPECT_NO_THROW(validate(config({"data.eval_fraction=0.5", "data.test_fraction=0.4"}), 1));
  EXPECT_NO_THROW(validate(config({"data.eval=e", "data.test_fraction=0.4"}), 1));
  EXPECT_THAT(error_of([&] {
                validate(config({"data.eval_fraction=0.5", "data.test_fraction=0.5"}), 1);
              }),
              HasSubstr("data.eval_fraction is 0.5 and data.test_fraction is 0.5: they leave "
                        "nothing of data.train "));
}

}  // namespace
}  // namespace tessera
