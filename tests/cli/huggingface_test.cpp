#include <gtest/gtest.h>

#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;

class CliHuggingFace : public SmallRun {
 protected:
  Outcome run_command(const std::string& command, const Arguments& more, int ranks = kAlone) const {
    Arguments arguments = {command};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(tessera(ranks, arguments));
  }

  std::string at(const std::string& name) const { return path(name).string(); }
};

TEST_F(CliHuggingFace, ExportsAndReimportsRun) {
  expect_success(run_train(2, "run", {"parallel.tensor=2"}));
  const Outcome out = run_command("export", {at("run"), "--to", at("out")});
  expect_success(out);
  EXPECT_EQ(out.count("GPT2LMHeadModel"), 1u) << out.output;
  EXPECT_EQ(out.count("parameters in fp32"), 1u) << out.output;
  for (const char* name : {"config.json", "generation_config.json", "model.safetensors",
                           "tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt"}) {
    EXPECT_TRUE(fs::exists(path("out") / name)) << name;
    EXPECT_GE(out.count(name), 1u) << out.output;
  }

  const Outcome in = run_command("import", {at("out"), "--to", at("back")}, 2);
  expect_success(in);
  EXPECT_EQ(in.count("tokenizer: byte with 257 tokens"), 1u) << in.output;
  EXPECT_EQ(in.count("  from: \"" + at("back") + "\"\n"), 1u) << in.output;
  expect_success(run_command("verify", {at("back")}));

  // Every command that uses a model accepts it and prints the same.
  const auto said = [&](const std::string& run, int ranks) {
    const Outcome text = run_command(
        "generate", {at(run), "--prompt", "3 times", "--temperature", "0", "--max-tokens", "20"},
        ranks);
    expect_success(text);
    return text.output;
  };
  EXPECT_EQ(said("back", kAlone), said("run", kAlone));
  EXPECT_EQ(said("back", 2), said("run", kAlone));
  expect_success(
      run_command("attention", {at("back"), "--text", "3 times", "--output", at("page")}));

  // The printed section makes a configuration. A run in the imported folder also starts from it
  // without checkpoint.from.
  const std::string section = in.output.substr(in.output.find("checkpoint:\n"));
  write_text(path("tuned.yaml"), "run:\n  dir: " + at("tuned") + "\n" + section +
                                     "batch: {global: 8, micro: 2}\ntrain: {steps: 2}\n");
  const Outcome tuned = run(tessera(2, {"train", at("tuned.yaml"), "--set",
                                        "data.train=" + dataset(), "--set", "parallel.tensor=2"}));
  expect_success(tuned);
  EXPECT_EQ(tuned.count("started with the weights of " + at("back")), 1u) << tuned.output;
  const Outcome continued = run_train(2, "back", {"parallel.tensor=2", "train.steps=3"});
  expect_success(continued);
  EXPECT_EQ(continued.count("started with the weights of " + at("back")), 1u) << continued.output;
  EXPECT_EQ(losses("back").at(1), losses("tuned").at(1));
}

TEST_F(CliHuggingFace, RejectsInvalidRequests) {
  expect_success(run_train(kAlone, "run", {"model.positions=rotary"}));
  for (const int ranks : {kAlone, 2}) {
    expect_refused(run_command("export", {at("run"), "--to", at("out")}, ranks),
                   {"model.positions is rotary", "no class of transformers"});
  }
  EXPECT_FALSE(fs::exists(path("out")));
  expect_refused(run_command("export", {at("none"), "--to", at("out")}), {"none is not a folder"});
  expect_refused(run_command("export", {at("run"), "--to", at("out"), "--max-shard-size", "much"}),
                 {"\"much\" is not a size", "as 5GB"});
  expect_refused(run_command("export", {at("run"), "--to", at("out"), "--precision", "fp8"}),
                 {"--precision"});
  expect_refused(run_command("import", {at("none"), "--to", at("back")}), {"none is not a folder"});
  fs::create_directory(path("empty"));
  expect_refused(run_command("import", {at("empty"), "--to", at("back")}, 2),
                 {"config.json: cannot be opened"});
  EXPECT_FALSE(fs::exists(path("back")));
  expect_refused(run_command("import", {at("empty")}), {"--to is required"});
}

}  // namespace
}  // namespace tessera::test
