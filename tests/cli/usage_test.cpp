#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "core/version.h"
#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

class CliUsage : public SmallRun, public testing::WithParamInterface<int> {
 protected:
  Outcome run_command(const Arguments& arguments) const {
    return run(tessera(GetParam(), arguments));
  }
};

TEST_P(CliUsage, NamesUnknownCommandsAndOptions) {
  expect_refused(run_command({"trian"}), {"there is no command 'trian', did you mean train?"});
  expect_refused(run_command({"train", "x.yaml", "--stpo-at", "3"}),
                 {"there is no option --stpo-at, did you mean --stop-at?"});
  if (GetParam() != kAlone) return;  // starting ranks takes longer than the rest of a run
  expect_refused(run_command({"trian", "--help"}), {"there is no command 'trian'"});
  expect_refused(run_command({"train"}),
                 {"config is required", "Usage: tessera train [OPTIONS] config",
                  "tessera train --help says more"});
  expect_refused(run_command({"train", "x.yaml", "--stop-at", "0"}),
                 {"--stop-at: '0' is not a whole number from 1 on"});
  expect_refused(run_command({"train", "x.yaml", "y.yaml"}), {"'y.yaml' was not expected"});
  expect_refused(run_command({"train", path("no.yaml").string()}),
                 {path("no.yaml").string() + ": cannot be opened"});
  expect_refused(run_command({"verify", path("nowhere").string()}), {"nowhere is not a folder"});
}

TEST_P(CliUsage, ComparesConfigurations) {
  write_text(path("a.yaml"), "data: {train: text}\ntrain: {steps: 5}\n");
  write_text(path("b.yaml"), "include: a.yaml\noptimizer: {lr: 0.5}\ntrain: {steps: 7}\n");
  const std::string a = path("a.yaml").string(), b = path("b.yaml").string();
  const Outcome differ = run_command({"config", a, "--set", "train.steps=6", "--diff", b});
  expect_success(differ);
  EXPECT_EQ(differ.count("run.dir: \"runs/a\" -> \"runs/b\"\n"), 1u) << differ.output;
  EXPECT_EQ(differ.count("train.steps: 6 -> 7\n"), 1u) << differ.output;
  EXPECT_EQ(differ.count("optimizer.lr: 0.001 -> 0.5\n"), 1u) << differ.output;
  EXPECT_EQ(differ.count(" -> "), 3u) << differ.output;
  const Outcome same = run_command({"config", a, "--diff", a});
  EXPECT_EQ(same.count("no key differs\n"), 1u) << same.output;
}

TEST_P(CliUsage, RejectsMissingRun) {
  std::vector<const char*> commands = {"eval"};
  if (GetParam() == kAlone) {
    commands = {"eval", "generate", "attention", "fill-mask", "classify", "embed", "export"};
  }
  for (const char* command : commands) {
    const std::string usage = fmt::format("Usage: tessera {} [OPTIONS] RUN\n", command);
    expect_refused(run_command({command}), {"RUN is required", usage});
  }
  expect_refused(run_command({"eval", "--checkpoint", "run"}),
                 {"there is no option --checkpoint", "Usage: tessera eval [OPTIONS] RUN\n"});
}

TEST_P(CliUsage, ListsCommandsWithoutArguments) {
  const Outcome list = run_command({});
  expect_success(list);
  EXPECT_EQ(list.count("\ntrain       Train a model\n"), 1u) << list.output;
  EXPECT_EQ(list.count("\nplan        Predict what a run needs"), 1u) << list.output;
  EXPECT_EQ(list.count("tessera COMMAND --help describes a command"), 1u) << list.output;
}

TEST_P(CliUsage, PrintsHelpOnce) {
  const Outcome help = run_command({"--help"});
  expect_success(help);
  EXPECT_EQ(help.count("Usage:"), 1u) << help.output;
  EXPECT_EQ(help.count("Continue a text with a trained model"), 1u) << help.output;
  EXPECT_EQ(run_command({"--version"}).output,
            fmt::format("{} ({})\n", kVersion, program_variant()));
}

TEST_P(CliUsage, RunsSingleProcessCommandsOnce) {
  const std::string output = path("new").string();
  const Arguments prepare = {"prepare", "--input", path("text.txt").string(), "--output", output};
  const Outcome prepared = run_command(prepare);
  expect_success(prepared);
  EXPECT_EQ(prepared.count("wrote "), 1u) << prepared.output;
  expect_refused(run_command(prepare), {output + ".bin"});
  const Outcome printed = run_command({"config", path("config.yaml").string()});
  expect_success(printed);
  EXPECT_EQ(printed.count("num_layers: 2\n"), 1u) << printed.output;
}

class CliHelp : public SmallRun {
 protected:
  /// `command`, then all subcommands that its help lists, recursively.
  std::vector<Arguments> commands(const Arguments& command) const {
    std::vector<Arguments> found = {command};
    std::istringstream help(help_of(command));
    std::string line;
    while (std::getline(help, line) && line != "Subcommands:") continue;
    while (std::getline(help, line) && !line.empty()) {
      Arguments subcommand = command;
      std::istringstream(line) >> subcommand.emplace_back();
      for (const Arguments& each : commands(subcommand)) found.push_back(each);
    }
    return found;
  }

  std::string help_of(Arguments command) const {
    command.push_back("--help");
    const Outcome help = run(tessera(kAlone, command));
    expect_success(help);
    return help.output;
  }
};

TEST_F(CliHelp, ShowsChoicesAsWords) {
  const std::vector<Arguments> all = commands({});
  EXPECT_GE(all.size(), 16u);  // 14 commands, `tokenizer train` and the program itself
  for (const Arguments& command : all) {
    const std::string help = help_of(command);
    EXPECT_TRUE(std::all_of(help.begin(), help.end(), [](unsigned char c) {
      return c == '\n' || c >= ' ';
    })) << help;
    for (const char* internal : {"->", "value in", "{"}) {
      EXPECT_EQ(help.find(internal), std::string::npos) << help;
    }
  }
  EXPECT_NE(help_of({"eval"}).find("--device auto|cpu|cuda=auto"), std::string::npos);
  EXPECT_NE(help_of({"export"}).find("--precision fp32|bf16=fp32"), std::string::npos);
  expect_refused(run(tessera(kAlone, {"eval", "run", "--device", "gpu"})),
                 {"--device: 'gpu' is none of: auto, cpu, cuda"});
}

INSTANTIATE_TEST_SUITE_P(Ranks, CliUsage, testing::Values(kAlone, 2), [](const auto& instance) {
  return instance.param == kAlone ? std::string("Alone") : fmt::format("On{}", instance.param);
});

}  // namespace
}  // namespace tessera::test
