#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "launch/config/label_names.h"
#include "launch/config/schema.h"
#include "launch/config/schema_list.h"
#include "launch/config/validate.h"
#include "launch/config/write_config.h"
#include "tests/launch/config/support.h"
#include "tests/support/source_folder.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Visits every key and sets it to a random value that its rule accepts.
class Randomizer {
 public:
  explicit Randomizer(uint64_t seed) : random_(seed) {}

  void operator()(std::string_view, auto& section, std::string_view) { describe(section, *this); }

  template <typename Rule>
  void operator()(Key, typename Rule::Value& value, const Rule& rule, std::string_view) {
    value = make(rule);
    EXPECT_TRUE(rule.accepts(value)) << rule.write(value);
  }

 private:
  int64_t make(const IntegerIn& rule) {
    return std::uniform_int_distribution<int64_t>(rule.min, rule.max)(random_);
  }
  int64_t make(const Duration&) {
    return std::uniform_int_distribution<int64_t>(0, Duration::kMax)(random_);
  }
  double make(const NumberIn& rule) {
    return std::uniform_real_distribution<double>(rule.min, rule.max)(random_);
  }
  bool make(const TrueOrFalse&) { return random_() % 2 == 0; }
  std::string make(const Text&) {
    static const std::string pieces[] = {"a",  "/",    " ",   "\"", "'",   "\\",      "#",
                                         ": ", "null", "1e5", "[",  "{",   "&",       "ä",
                                         "七", "~",    "%",   "-",  "\\n", "\xc2\x85"};
    std::string text = pieces[random_() % std::size(pieces)];
    while (random_() % 4 != 0) text += pieces[random_() % std::size(pieces)];
    return text.starts_with('~') ? "." + text : text;  // only a shell replaces ~/
  }
  std::string make(const Passage&) {
    static const std::string ends[] = {"", "\n", "\t"};
    return random_() % 4 == 0 ? "" : make(Text{}) + ends[random_() % std::size(ends)];
  }
  DataBlend make(const PathOrBlend& rule) {
    if (random_() % 2 == 0) return make(Text{});
    DataBlend blend;
    do {
      DataBlend more = blend;
      const double exponent = std::uniform_real_distribution<double>(-9.0, 9.0)(random_);
      more.parts.push_back({make(Text{}), std::pow(10.0, exponent)});
      if (rule.accepts(more)) blend = more;  // otherwise a duplicate path
    } while (blend.parts.empty() || random_() % 4 != 0);
    return blend;
  }
  PatternNumbers::Value make(const PatternNumbers& rule) {
    PatternNumbers::Value value;
    while (random_() % 3 != 0) {
      PatternNumbers::Value more = value;
      more.emplace_back(make(Text{}), make(rule.number));
      if (rule.accepts(more)) value = more;  // otherwise a duplicate pattern
    }
    return value;
  }
  std::string make(const TokenizerName&) {
    if (random_() % 2 == 0) return "byte";
    return (random_() % 2 == 0 ? "wordpiece:" : "wordpiece-cased:") + make(Text{});
  }
  std::string make(const Letters& rule) {
    std::string text;
    do {
      text += rule.letters[random_() % rule.letters.size()];
    } while (random_() % 4 != 0);
    return text;
  }
  SpecialTokenIds make(const SpecialTokenMap&) {
    SpecialTokenIds ids;
    for (const std::string_view name : kSpecialTokenNames) {
      if (random_() % 2 == 0) ids.emplace(name, static_cast<int32_t>(random_() % 1000));
    }
    return ids;
  }
  LoraTargets::Value make(const LoraTargets&) { return {make(Text{})}; }  // read without repetition
  ColumnNames make(const ColumnMap&) {
    ColumnNames columns;
    for (const std::string_view name : kColumnNames) {
      if (random_() % 4 == 0) columns.emplace(name, make(Text{}));
    }
    return columns;
  }
  template <typename T>
  T make(const OneOf<T>& rule) {
    return rule.choices[random_() % rule.choices.size()].second;
  }
  template <typename Rule>
  typename OrNull<Rule>::Value make(const OrNull<Rule>& rule) {
    if (random_() % 2 == 0) return std::nullopt;
    return make(rule.rule);
  }
  template <typename Rule>
  typename PairOf<Rule>::Value make(const PairOf<Rule>& rule) {
    return {make(rule.rule), make(rule.rule)};
  }
  template <typename Rule>
  typename ListOf<Rule>::Value make(const ListOf<Rule>& rule) {
    typename ListOf<Rule>::Value values;
    if (rule.may_be_empty && random_() % 3 == 0) return values;
    do {
      values.push_back(make(rule.rule));
    } while (random_() % 2 == 0);
    return values;
  }

  std::mt19937_64 random_;
};

TEST(ConfigWrite, RoundTripsAnyConfiguration) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    RunConfig config;
    Randomizer randomize(seed);
    describe(config, randomize);
    const std::string yaml = to_yaml(config);
    EXPECT_EQ(parse_config("x.yaml", yaml), config) << yaml;
    EXPECT_EQ(to_yaml(parse_config("x.yaml", yaml)), yaml);
  }
}

TEST(ConfigWrite, WritesEveryKey) {
  const std::string yaml = to_yaml(parse_config("x.yaml", kMinimal));
  for (const SectionInfo& section : config_sections()) {
    EXPECT_THAT(yaml, HasSubstr(section.name + ":\n"));
    for (const KeyInfo& key : section.keys) EXPECT_THAT(yaml, HasSubstr("\n  " + key.name + ": "));
  }
  EXPECT_THAT(yaml, HasSubstr("run:\n  dir: \"runs/a\"\n  seed: 1234\n  device: auto\n"));
  EXPECT_THAT(yaml, HasSubstr("  eval: null\n"));
  EXPECT_THAT(yaml, HasSubstr("  betas: [0.9, 0.95]\n  eps: 1.0e-8\n"));
}

/// Converts to any type, to count the members of an aggregate.
struct AnyValue {
  template <typename T>
  operator T() const;  // NOLINT: implicit on purpose
};

template <typename T, typename... Values>
constexpr size_t member_count() {
  if constexpr (requires { T{Values{}..., AnyValue{}}; }) {
    return member_count<T, Values..., AnyValue>();
  } else {
    return sizeof...(Values);
  }
}

TEST(ConfigSchema, HasKeyForEveryModelMember) {
  // The members are declared in models/. One that schema.h lacks could not be set, but `rotary` has
  // keys for its members, and `attention_plane` is what attention_mask_file contains.
  const SectionInfo& model = config_sections().at(1);
  ASSERT_EQ(model.name, "model");
  EXPECT_EQ(model.keys.size(), member_count<ModelConfig>() - 2 + member_count<RotaryFrequencies>());
}

TEST(ConfigSchema, AcceptsEveryDefault) {
  RunConfig config;
  config.run.dir = "a";
  config.data.train = "a";
  config.train.steps = 1;
  config.model.vocab_size = 257;
  config.automatic = {"data.tokenizer", "batch.micro"};
  EXPECT_NO_THROW(validate(config, 1));
}

TEST(ConfigSchema, FindsNearestKeyOrNone) {
  const std::vector<std::string> keys = {"num_layers", "num_heads", "lr", "min_lr"};
  EXPECT_THAT(nearest("num_layer", keys, 3), ElementsAre("num_layers"));
  EXPECT_THAT(nearest("nmu_heads", keys, 3), ElementsAre("num_heads"));
  EXPECT_THAT(nearest("lrr", keys, 3), ElementsAre("lr"));
  EXPECT_THAT(nearest("numlayers", keys, 3), ElementsAre("num_layers"));
  EXPECT_THAT(nearest("zebra", keys, 3), IsEmpty());
  EXPECT_THAT(nearest("", keys, 3), IsEmpty());
  EXPECT_THAT(nearest(std::string(100000, 'n'), keys, 3), IsEmpty());
}

TEST(ConfigSchema, FindsOnlyNearestKeys) {
  const std::vector<std::string> keys = {"beta_3", "betas", "beta", "beta_12", "beta_1", "beta_2"};
  EXPECT_THAT(nearest("beta_4", keys, 3), ElementsAre("beta_3", "beta_1", "beta_2"));
  EXPECT_THAT(nearest("beta_4", keys, 1), ElementsAre("beta_3"));
  EXPECT_THAT(nearest("beta", keys, 3), ElementsAre("beta", "betas"));
}

TEST(ConfigDocs, PageMatchesSchema) {
  std::ifstream file(test::source_folder() / "docs/configuration.md", std::ios::binary);
  const std::string page(std::istreambuf_iterator<char>(file), {});
  EXPECT_TRUE(page == config_markdown())
      << "docs/configuration.md does not match launch/config/schema.h. Regenerate it:\n"
      << "  tessera config --markdown > docs/configuration.md";
}

/// As a run would, from its data.
void derive_from_images(RunConfig& config) {
  config.model.head = Head::classification;
  config.model.num_labels = std::ssize(names_of_labels(config.data.labels));
  config.model.image_size = 28;
  config.model.num_channels = 1;
  config.model.seq_length = config.model.image_tokens();
  config.model.vocab_size = 1;
}

TEST(ConfigFiles, AllLoadAndFitOneAndTwoRanks) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::source_folder() / "configs")) {
    ASSERT_EQ(entry.path().extension(), ".yaml") << entry.path();
    SCOPED_TRACE(entry.path().string());
    ++files;
    RunConfig config;
    ASSERT_NO_THROW(config = load_config(entry.path()));
    EXPECT_EQ(parse_config("x.yaml", to_yaml(config)), config);
    if (config.checkpoint.from) continue;  // the checkpoint has the rest
    if (config.automatic.contains("model.vocab_size")) config.model.vocab_size = 257;
    if (config.model.has_images()) derive_from_images(config);
    EXPECT_NO_THROW(validate(config, 1));
    EXPECT_NO_THROW(validate(config, 2));
  }
  EXPECT_GE(files, 6);
}

}  // namespace
}  // namespace tessera
