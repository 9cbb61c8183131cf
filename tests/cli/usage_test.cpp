#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

class CliUsage : public SmallRun, public testing::WithParamInterface<int> {
 protected:
  Outcome called(const Arguments& arguments) const { return run(tessera(GetParam(), arguments)); }
};

TEST_P(CliUsage, UnknownCommandsAndOptionsAreNamed) {
  expect_refused(called({"trian"}), {"there is no command 'trian', did you mean train?"});
  expect_refused(called({}), {"no command was given; the commands are train, eval, generate,"});
  expect_refused(called({"train"}), {"config is required", "tessera train --help says more"});
  expect_refused(called({"train", "x.yaml", "--stpo-at", "3"}),
                 {"there is no option --stpo-at, did you mean --stop-at?"});
  expect_refused(called({"train", "x.yaml", "--stop-at", "0"}),
                 {"--stop-at: '0' is not a whole number from 1 on"});
  expect_refused(called({"train", "x.yaml", "y.yaml"}), {"'y.yaml' was not expected"});
  expect_refused(called({"train", path("no.yaml").string()}),
                 {"can not open the configuration " + path("no.yaml").string()});
  expect_refused(called({"verify", path("nowhere").string()}), {"nowhere is not a folder"});
}

TEST_P(CliUsage, HelpIsSaidOnce) {
  const Outcome help = called({"--help"});
  expect_success(help);
  EXPECT_EQ(help.count("Usage:"), 1u) << help.output;
  EXPECT_EQ(help.count("Continue a text with a trained model"), 1u) << help.output;
  EXPECT_EQ(called({"--version"}).count("."), 2u);
}

TEST_P(CliUsage, WhatOneProcessDoesIsDoneOnce) {
  const std::string output = path("new").string();
  const Arguments prepare = {"prepare", "--input", path("text.txt").string(), "--output", output};
  const Outcome prepared = called(prepare);
  expect_success(prepared);
  EXPECT_EQ(prepared.count("wrote "), 1u) << prepared.output;
  expect_refused(called(prepare), {output + ".bin"});
  const Outcome printed = called({"config", path("config.yaml").string()});
  expect_success(printed);
  EXPECT_EQ(printed.count("num_layers: 2\n"), 1u) << printed.output;
}

INSTANTIATE_TEST_SUITE_P(Ranks, CliUsage, testing::Values(kAlone, 2), [](const auto& instance) {
  return instance.param == kAlone ? std::string("Alone") : fmt::format("On{}", instance.param);
});

}  // namespace
}  // namespace tessera::test
