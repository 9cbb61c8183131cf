#include <gtest/gtest.h>

#include "launch/checkpoint/format/step_folder.h"
#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

class CliInspect : public SmallRun {
 protected:
  /// Expects that `tessera inspect ARGUMENTS` prints all `facts`.
  static void expect_describes(const Arguments& arguments, const Arguments& facts) {
    Arguments all = {"inspect"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Outcome outcome = run(tessera(kAlone, all));
    expect_success(outcome);
    for (const std::string& fact : facts) {
      EXPECT_NE(outcome.output.find(fact), std::string::npos)
          << "\"" << fact << "\" is missing from: " << outcome.output;
    }
  }
};

TEST_F(CliInspect, DescribesRunAndCheckpoints) {
  expect_success(run_train(2, "run", {"parallel.tensor=2", "checkpoint.interval=10"}));
  const Arguments model = {"gpt2: 2 layers, 32 wide, 4 heads, context 16, vocabulary 257"};
  expect_describes({path("run").string()}, {model[0], "step 20, loss", "step_00000010",
                                            "step_00000020", "weights and optimizer"});
  expect_describes({(path("run") / "").string()}, {"step_00000010"});
  const std::string step = (checkpoints_folder(path("run")) / "step_00000010").string();
  expect_describes({step}, {model[0], "10, after 80 samples", "byte with 257 tokens",
                            "model_00001.safetensors", "(3, 32, 32)"});
  expect_describes({step + "/model_00000.safetensors"}, {"safetensors file", "F32"});

  // A damaged checkpoint does not hide the others.
  write_text(step + "/manifest.json", "{}");
  expect_describes({path("run").string()}, {"step_00000010", "damaged", "step_00000020"});
  expect_refused(run(tessera(kAlone, {"inspect", step})), {"manifest.json"});
}

TEST_F(CliInspect, DescribesDataset) {
  for (const std::string ending : {"", ".bin", ".idx", ".meta.json"}) {
    expect_describes(
        {dataset() + ending, "--tokenizer", "byte"},
        {"tokens", "uint16", "documents  1\n", "duplicates 0 (0.00%)", "bytes a token",
         "tokens in a", "\n  document ", "0 times 0 is 0, and that is all.\\n1 times"});
  }
  expect_describes({dataset(), "--documents", "0"}, {"Megatron"});
}

TEST_F(CliInspect, DescribesHuggingFaceFolder) {
  expect_success(run_train(kAlone, "run", {"train.steps=3"}));
  expect_success(
      run(tessera(kAlone, {"export", path("run").string(), "--to", path("out").string()})));
  expect_describes({path("out").string()},
                   {"GPT2LMHeadModel", "tessera import", "byte with 257 tokens",
                    "model.safetensors", "transformer.h.1.ln_2.weight"});
}

TEST_F(CliInspect, DescribesTokenizer) {
  expect_describes({"byte", "--text", "a\n"},
                   {"byte with 257 tokens", "2 bytes, 2 tokens", "97  a", "\\x0a", "\"a\\n\""});
  write_text(path("vocab.txt"), "[UNK]\na\n##b\n");
  expect_describes({"wordpiece:" + path("vocab.txt").string(), "--text", "ab"},
                   {"wordpiece with 3 tokens", "[UNK] (0)", "##b"});
}

TEST_F(CliInspect, RejectsUnknownTargetsAndMisplacedOptions) {
  expect_refused(run(tessera(kAlone, {"inspect", path("none").string()})),
                 {"none", "does not exist", "wordpiece:"});
  expect_refused(run(tessera(kAlone, {"inspect", path("text.txt").string()})),
                 {"text.txt", "is nothing that inspect can describe"});
  expect_refused(run(tessera(kAlone, {"inspect", dataset(), "--tokenizer", "morse"})), {"morse"});
  expect_refused(run(tessera(kAlone, {"inspect", dataset(), "--text", "a"})),
                 {"--text is for a tokenizer", "data"});
  expect_refused(run(tessera(kAlone, {"inspect", "byte", "--documents", "1"})),
                 {"--documents is for a dataset", "byte"});
}

}  // namespace
}  // namespace tessera::test
