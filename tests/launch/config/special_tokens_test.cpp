#include "launch/config/validate.h"
#include "launch/config/write_config.h"
#include "tests/launch/config/support.h"

namespace tessera {
namespace {

using testing::AllOf;
using testing::HasSubstr;

RunConfig config_with(const std::vector<std::string>& sets) {
  std::vector<std::string> all = {"model.vocab_size=300"};
  all.insert(all.end(), sets.begin(), sets.end());
  return parse_config("x.yaml", kMinimal, all);
}

TEST(SpecialTokens, ReadsAndWritesMap) {
  const std::pair<std::string, SpecialTokenIds> cases[] = {
      {"{}", {}},
      {"{mask: 4}", {{"mask", 4}}},
      {"{cls: 2, eos: 1, mask: 4, pad: 0, sep: 3, unk: 5}",
       {{"cls", 2}, {"sep", 3}, {"mask", 4}, {"pad", 0}, {"unk", 5}, {"eos", 1}}}};
  for (const auto& [text, ids] : cases) {
    const RunConfig config = config_with({"data.tokenizer=none", "data.special_tokens=" + text});
    EXPECT_EQ(config.data.special_tokens, ids);
    EXPECT_THAT(to_yaml(config), HasSubstr("  special_tokens: " + text + "\n"));
    EXPECT_EQ(parse_config("again.yaml", to_yaml(config), {}).data.special_tokens, ids);
  }
}

TEST(SpecialTokens, RejectsInvalidMaps) {
  const std::pair<const char*, const char*> cases[] = {
      {"4", "is 4, but must be a map of cls, sep, mask, pad, unk, eos to ids"},
      {"{bos: 1}", "has 'bos', but the special tokens are cls, sep, mask, pad, unk, eos"},
      {"{cls: -1}", "has 'cls', which is -1, but must be an integer from 0"},
      {"{cls: x}", "has 'cls', which is x, but must be an integer from 0"},
      {"{cls: 1, cls: 2}", "has 'cls', which is given twice"}};
  for (const auto& [text, fact] : cases) {
    EXPECT_THAT(set_error(fmt::format("data.special_tokens={}", text)),
                AllOf(HasSubstr("data.special_tokens "), HasSubstr(fact)));
  }
}

TEST(SpecialTokens, BelongToDataWithoutTokenizer) {
  const auto error = [](const std::vector<std::string>& sets) {
    return error_of([&] { validate(config_with(sets), 1); });
  };
  EXPECT_EQ(
      error({"data.tokenizer=byte", "data.special_tokens={mask: 4}"}),
      "data.special_tokens is {mask: 4}, but data.tokenizer is byte, which has its own: leave "
      "special_tokens out, or set tokenizer to none");
  EXPECT_EQ(error({"data.tokenizer=none", "data.special_tokens={cls: 2, mask: 300}"}),
            "data.special_tokens is {cls: 2, mask: 300}, but model.vocab_size is 300: mask must be "
            "from 0 to 299");
  for (const char* tokenizer : {"none", "auto"}) {
    EXPECT_NO_THROW(validate(config_with({fmt::format("data.tokenizer={}", tokenizer),
                                          "data.special_tokens={mask: 299}"}),
                             1));
  }
}

}  // namespace
}  // namespace tessera
