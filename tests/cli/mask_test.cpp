#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/support/text/json.h"
#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// A configuration whose data does not exist: masks need none.
class CliMask : public testing::Test {
 protected:
  CliMask() {
    write_text(folder_ / "config.yaml",
               "model: {num_layers: 2, hidden_size: 32, num_heads: 4, seq_length: 128, "
               "vocab_size: 257, attention_window: 3, window_pattern: GL, global_tokens: 1}\n"
               "data: {train: nowhere/data, tokenizer: byte}\n"
               "train: {steps: 20}\n");
  }

  Outcome run_mask(const Arguments& arguments) const {
    Arguments all = {"mask", folder_ / "config.yaml"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return run(tessera(kAlone, all));
  }

  TestFolder folder_;
};

TEST_F(CliMask, DrawsTextJsonAndPage) {
  const Outcome text = run_mask({"--documents", "5,3"});
  expect_success(text);
  EXPECT_THAT(text.output,
              AllOf(HasSubstr("8 tokens in 2 documents of 5, 3, which attend to each other"),
                    HasSubstr("layers 1 (1 of 2): causal, window of 3 tokens, 1 "
                              "global")));
  const Outcome json = run_mask({"--json"});
  expect_success(json);
  EXPECT_EQ(Json::parse(json.output)["length"], 128);
  const std::string page = folder_ / "new/mask.html";
  expect_success(run_mask({"--html", page}));
  EXPECT_THAT(read_text(page), HasSubstr("layers 0 (1 of 2): causal<"));
}

TEST_F(CliMask, RefusesWhatDoesNotFit) {
  expect_refused(run_mask({"--documents", "100,100"}),
                 {"have 200 tokens together", "model.seq_length is 128: give 1 to 128"});
  expect_refused(run_mask({"--set", "model.attention_window=0"}),
                 {"model.window_pattern is set, but model.attention_window is 0"});
}

}  // namespace
}  // namespace tessera::test
