#include "launch/cli/support/usage_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "launch/cli/commands.h"

namespace tessera {
namespace {

using testing::HasSubstr;

/// The first line that `tessera LINE` prints for a wrong command line, or "" if it is right.
std::string complaint(const std::string& line) {
  std::istringstream words(line);
  std::vector<std::string> arguments;
  for (std::string word; words >> word;) arguments.push_back(word);
  int exit_code = 0;
  CLI::App app("", "tessera");
  app.require_subcommand(1);
  add_commands(app, exit_code);
  app.immediate_callback();
  app.callback([] { throw CLI::Success(); });  // run nothing
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::Success&) {
    return "";
  } catch (const CLI::ParseError& error) {
    const std::string text = usage_error(app, error, arguments);
    return text.substr(0, text.find('\n'));
  }
  return "";
}

TEST(UsageError, AnswersOptionsOfOtherProgramsFirst) {
  struct Case {
    const char *line, *advice;
  };
  for (const auto& [line, advice] : {
           Case{"train x.yaml --lr 3e-4", "--lr: write --set optimizer.lr=3e-4"},
           Case{"train --lr=3e-4 x.yaml", "--lr: write --set optimizer.lr=3e-4"},
           Case{"train --learning-rate 3e-4 x.yaml", "write --set optimizer.lr=3e-4"},
           Case{"train x.yaml --train.steps=5", "write --set train.steps=5"},
           Case{"train x.yaml train.steps=5", "write --set train.steps=5"},
           Case{"train train.steps=5 x.yaml", "write --set train.steps=5"},
           Case{"train x.yaml --train.stesp 5", "did you mean --set train.steps=5?"},
           Case{"train x.yaml --steps -5", "write --set train.steps=-5"},
           Case{"train x.yaml --batch-size 8", "write --set batch.global=8 (batch.micro is"},
           Case{"train x.yaml --keep-best", "write --set checkpoint.keep_best=true"},
           Case{"train --keep_best x.yaml", "write --set checkpoint.keep_best=true"},
           Case{"train x.yaml --lora-targets [a,b]", "--set 'model.lora_targets=[a,b]'"},
           Case{"train x.yaml --lr", "write --set optimizer.lr=VALUE"},
           Case{"train x.yaml --pp 2", "pipeline parallelism is not supported"},
           Case{"train x.yaml --dry-run", "`tessera plan CONFIG --ranks N`"},
           Case{"train x.yaml --resume", "--set checkpoint.resume=required"},
           Case{"train --resume", "--set checkpoint.resume=required"},
           Case{"train --config x.yaml", "pass CONFIG without an option"},
           Case{"train x.yaml --stop_at 3", "did you mean --stop-at?"},
           Case{"config x.yaml --lr 1", "write --set optimizer.lr=1"},
           Case{"generate --model run --prompt x", "pass RUN without an option"},
           Case{"generate run --prompt x --max-new-tokens 4", "it is --max-tokens here"},
           Case{"generate run --prompt x --num_return_sequences 4", "it is --num-samples here"},
           Case{"eval run --batch-size 4", "it is --micro-batch here"},
           Case{"export run --output x", "it is --to here"},
           Case{"plan x.yaml --gpus 8", "it is --ranks here"},
           Case{"tokenizer trian", "there is no command 'trian', did you mean train?"},
           Case{"trian x.yaml", "there is no command 'trian', did you mean train?"},
           Case{"finetune x.yaml", "did you mean train?"},
           Case{"foo", "there is no command 'foo'"},
       }) {
    EXPECT_THAT(complaint(line), HasSubstr(advice)) << line;
    EXPECT_LT(complaint(line).size(), 400U) << line;
  }
  EXPECT_THAT(complaint("train x.yaml --zzzzzzzz"), HasSubstr("The options are"));
  EXPECT_THAT(complaint("train x.yaml y.yaml"), HasSubstr("'y.yaml' was not expected"));
  EXPECT_EQ(complaint("train x.yaml --set optimizer.lr=1"), "");
}

}  // namespace
}  // namespace tessera
