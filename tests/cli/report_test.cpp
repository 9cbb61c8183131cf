#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class CliReport : public SmallRun {
 protected:
  Outcome report(const Arguments& arguments) const {
    return run(tessera(kAlone, report_arguments(arguments)));
  }
  static Arguments report_arguments(const Arguments& arguments) {
    Arguments all = {"report"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return all;
  }
  std::string page(const std::string& name) const { return read_text(path(name)); }
};

TEST_F(CliReport, WritesAPageOfARun) {
  expect_success(run_train(2, "run", {"eval.interval=10", "data.eval_fraction=0.2"}));
  const Outcome outcome = report({path("run").string()});
  expect_success(outcome);
  EXPECT_EQ(outcome.count("wrote " + path("run/report.html").string() + "\n"), 1u)
      << outcome.output;
  EXPECT_THAT(page("run/report.html"),
              AllOf(HasSubstr("<dt>step</dt><dd>20 <small>of 20</small>"),
                    HasSubstr("<dt>lowest evaluation loss</dt>"),
                    HasSubstr("<summary>config.yaml</summary>"),
                    HasSubstr("<summary>memory plan of its layout</summary>"),
                    HasSubstr("2 = 2 data × 1 tensor"), Not(HasSubstr("class=\"problems\""))));
}

TEST_F(CliReport, ComparesRuns) {
  expect_success(run_train(kAlone, "a"));
  expect_success(run_train(kAlone, "b", {"optimizer.lr=0.02"}));
  expect_success(
      report({path("a").string(), path("b").string(), "--output", path("new/page.html").string()}));
  EXPECT_THAT(page("new/page.html"),
              AllOf(HasSubstr("2 runs compared"), HasSubstr("<code>optimizer.lr</code>"),
                    Not(HasSubstr("<code>optimizer.eps</code>"))));
}

TEST_F(CliReport, WatchesUntilTheLastStep) {
  expect_success(run_train(kAlone, "run", {"--stop-at=5"}));
  Program watcher(tessera(kAlone, report_arguments({path("run").string(), "--watch", "1"})));
  EXPECT_TRUE(watcher.wait_for("again every 1 s until Ctrl-C")) << watcher.output();
  EXPECT_THAT(page("run/report.html"),
              AllOf(HasSubstr("reload every 1 s"), HasSubstr("5 <small>of 20</small>")));
  expect_success(run_train(kAlone, "run"));
  expect_success(watcher.wait());
  EXPECT_THAT(page("run/report.html"),
              AllOf(Not(HasSubstr("reload every")), HasSubstr("20 <small>of 20</small>")));
}

TEST_F(CliReport, IsWrittenByTheRun) {
  Program training(tessera(
      2, train("run", {"train.steps=1000000", "log.report_interval=5", "data.eval_fraction=0.2",
                       "log.attention_interval=5", "log.noise_scale_interval=2"})));
  ASSERT_TRUE(training.wait_for("step      12/")) << training.output();
  EXPECT_THAT(page("run/report.html"),
              AllOf(HasSubstr("reload every 30 s"), HasSubstr("of 1,000,000"),
                    HasSubstr("<summary>memory plan of its layout</summary>"),
                    HasSubstr("layer 1, head 3</figcaption>"), HasSubstr("Gradient noise scale"),
                    Not(HasSubstr("class=\"problems\""))));
  for (const pid_t process : training.processes("tessera")) ::kill(process, SIGTERM);
  training.wait();
  EXPECT_THAT(page("run/report.html"), Not(HasSubstr("reload every")));
  EXPECT_EQ(training.output().find("warning"), std::string::npos) << training.output();
}

TEST_F(CliReport, EndsTheReloadsWhenItIsStopped) {
  expect_success(run_train(kAlone, "run", {"--stop-at=5"}));
  Program watcher(tessera(kAlone, report_arguments({path("run").string(), "--watch"})));
  EXPECT_TRUE(watcher.wait_for("again every 30 s until Ctrl-C")) << watcher.output();
  EXPECT_THAT(page("run/report.html"), HasSubstr("reload every 30 s"));
  for (const pid_t process : watcher.processes("tessera")) ::kill(process, SIGINT);
  expect_success(watcher.wait());
  EXPECT_THAT(page("run/report.html"), Not(HasSubstr("reload every")));
}

TEST_F(CliReport, RefusesWhatIsNoRun) {
  expect_refused(report({}), {"RUN is required", "Usage: tessera report [OPTIONS] RUN"});
  expect_refused(report({path("none").string()}), {"none is not a folder"});
  expect_refused(report({path("").string()}), {"metrics.jsonl does not exist"});
  expect_refused(report({"run", "--watch", "0"}), {"'0' is not a whole number from 1 on"});
  expect_refused(report({"--watch", "a", "b"}), {"'a' is not a whole number from 1 on"});
  EXPECT_FALSE(std::filesystem::exists(path("report.html")));
}

}  // namespace
}  // namespace tessera::test
