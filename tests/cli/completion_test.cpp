#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

using testing::HasSubstr;

class CliCompletion : public SmallRun {
 protected:
  static Outcome words(const Arguments& typed) {
    Arguments arguments = {"completion", "words", "--"};
    arguments.insert(arguments.end(), typed.begin(), typed.end());
    return run(tessera(kAlone, arguments));
  }
};

TEST_F(CliCompletion, PrintsTheWordsThatMayFollow) {
  const struct {
    Arguments typed;
    std::string expected;
  } cases[] = {
      {{"tr"}, "train\n"},
      {{"tokenizer", ""}, "train\n"},
      {{"generate", "runs/a", "--max"}, "--max-tokens\n"},
      {{"generate", "runs/a", "--device", ""}, "auto\ncpu\ncuda\n"},
      {{"generate", "runs/a", "--device", "cpu", "--to"}, "--top-k\n--top-p\n"},
      {{"train", "a.yaml", "--set", "model.kind=gpt2", "model.num_lay"}, "model.num_layers=\n"},
      {{"train", "a.yaml", "--set", "log.tensorboard=t"}, "log.tensorboard=true\n"},  // of zsh
      {{"train", "a.yaml", "--set", "log.tensorboard", "="}, "false\ntrue\n"},
      {{"train", "a.yaml", "--set", "run.seed=1", "data.packing", "=", "d"}, "documents\n"},
      {{"train", "a.yaml", "--set", "run.seed", "=", ""}, ""},
      {{"train", "a.yaml", "--set", "no.key", "=", ""}, ""},
      {{"run", "--ho"}, "--hosts\n"},
      {{"run", "-np", "2", "tr"}, "train\n"},
      {{"run", "-np", "2", "generate", "runs/a", "--device", ""}, "auto\ncpu\ncuda\n"},
      {{"supervise", "--np", "2", "train", "a.yaml", "--set", "model.num_lay"},
       "model.num_layers=\n"},
      {{"supervise", "--", "mpirun", "-np", "2", "tessera", "train", "a.yaml", "--stop-a"},
       "--stop-at\n"},
      {{"completion", ""}, "bash\nwords\nzsh\n"},
      {{"train", ""}, ""},
      {{"no-such-command", "--set", ""}, ""},
      {{}, ""},
  };
  for (const auto& [typed, expected] : cases) {
    const Outcome outcome = words(typed);
    expect_success(outcome);
    EXPECT_EQ(outcome.output, expected) << testing::PrintToString(typed);
  }
}

TEST_F(CliCompletion, BashCompletes) {
  write_text(path("try.sh"), std::string("eval \"$('" TESSERA_BINARY "' completion bash)\"\n") +
                                 "COMP_WORDS=('" TESSERA_BINARY
                                 "' plan a.yaml --ro) COMP_CWORD=3\n"
                                 "_tessera\n"
                                 "echo \"${COMPREPLY[@]}\"\n"
                                 "COMP_WORDS=(mpirun -np 2 '" TESSERA_BINARY
                                 "' plan a.yaml --ro) COMP_CWORD=6\n"
                                 "_tessera\n"
                                 "echo \"${COMPREPLY[@]}\"\n"
                                 "COMP_WORDS=(mpirun --ro) COMP_CWORD=1\n"
                                 "_tessera\n"
                                 "echo \"${COMPREPLY[@]}\"\n");
  const Outcome outcome = run({"bash", path("try.sh").string()});
  expect_success(outcome);
  EXPECT_EQ(outcome.output, "--roofline\n--roofline\n\n");
  EXPECT_THAT(run(tessera(kAlone, {"completion", "zsh"})).output, HasSubstr("#compdef tessera"));
  expect_refused(run(tessera(kAlone, {"completion", "fish"})),
                 {"'fish' is none of: bash, zsh, words"});
}

}  // namespace
}  // namespace tessera::test
