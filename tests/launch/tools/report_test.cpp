#include "launch/tools/report/report.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "launch/support/text/json.h"
#include "launch/tools/report/report_page.h"
#include "launch/tools/report/report_panels.h"
#include "launch/tools/report/run_record.h"
#include "launch/tools/report/run_results.h"
#include "tests/launch/tools/attention_report_fixture.h"
#include "tests/support/expect_error.h"
#include "tests/support/page_text.h"
#include "tests/support/test_folder.h"

namespace tessera {
namespace {

using test::count;
using test::json_in;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* kConfig =
    "run:\n  dir: \"runs/a\"\nmodel:\n  kind: gpt2\n  num_layers: 4\ntrain:\n  steps: 20\n"
    "optimizer:\n  lr: 0.001\n  betas: [0.9, 0.98]\n";

RunRecord metrics(const std::string& lines) {
  std::istringstream stream(lines);
  RunRecord record;
  record.path = "run";
  read_metrics(stream, record);
  return record;
}

std::string step_line(int64_t step, double loss) {
  return fmt::format(
      "{{\"step\":{},\"loss\":{},\"lr\":0.001,\"grad_norm\":2.5,\"tokens\":{},"
      "\"tokens_per_second\":1000.0,\"data_wait_seconds\":0.002}}\n",
      step, loss, step * 512);
}

RunRecord small_run(const std::string& path = "runs/a", const std::string& config = kConfig) {
  RunRecord run =
      metrics(step_line(1, 4.0) + step_line(10, 2.0) +
              "{\"step\":10,\"eval_loss\":2.5,\"eval_token_accuracy\":0.5}\n" + step_line(20, 1.5) +
              "{\"step\":20,\"eval_loss\":2.75,\"eval_token_accuracy\":0.625}\n"
              "{\"step\":20,\"save_seconds\":0.25,\"save_background_seconds\":1.5}\n");
  run.path = path;
  run.config_text = config;
  read_keys("config.yaml", config, run);
  return run;
}

std::vector<int64_t> steps_of(const RunSeries& series) {
  std::vector<int64_t> steps;
  for (const RunPoint& point : series) steps.push_back(point.step);
  return steps;
}

TEST(RunRecord, HasASeriesForEachKey) {
  const RunRecord run = small_run();
  EXPECT_THAT(run.problems, IsEmpty());
  EXPECT_THAT(steps_of(*run.find("loss")), ElementsAre(1, 10, 20));
  EXPECT_THAT(steps_of(*run.find("eval_loss")), ElementsAre(10, 20));
  EXPECT_THAT(steps_of(*run.find("save_seconds")), ElementsAre(20));
  EXPECT_EQ(run.find("mfu"), nullptr);
  EXPECT_EQ(run.last_step, 20);
  EXPECT_EQ(run.total_steps(), 20);
  EXPECT_TRUE(run.has_finished());
  EXPECT_EQ(run.config_value("optimizer.betas"), "[0.9, 0.98]");
}

TEST(RunRecord, HasFinishedOnceItsPatienceIsOver) {
  const std::string losses =
      "{\"step\":2,\"eval_loss\":2.5,\"eval_ema_loss\":2.5}\n"
      "{\"step\":4,\"eval_loss\":2.6,\"eval_ema_loss\":2.4}\n"
      "{\"step\":6,\"eval_loss\":null,\"eval_ema_loss\":2.6}\n";
  const std::pair<const char*, bool> cases[] = {{"eval: {patience: 2}", true},
                                                {"eval: {patience: 3}", false},
                                                {"eval: {patience: 0}", false},
                                                {"eval: {patience: x}", false},
                                                {"optimizer: {ema_decay: 0.9}\n"
                                                 "eval: {patience: 2}",
                                                 false},
                                                {"optimizer: {ema_decay: 0.9}\n"
                                                 "eval: {patience: 1}",
                                                 true}};
  for (const auto& [keys, has_finished] : cases) {
    RunRecord run = metrics(step_line(6, 2.0) + losses);
    read_keys("config.yaml", std::string("train: {steps: 20}\n") + keys + "\n", run);
    EXPECT_EQ(run.has_finished(), has_finished) << keys;
  }
}

// What a damaged or hostile line must say; lines around it count.
TEST(RunRecord, NamesDamagedLines) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{\"step\":2,\"lo", "is no JSON object"},
      {"", "is no JSON object"},
      {"[1, 2]", "is no JSON object"},
      {"\xFF\xFE", "is no JSON object"},
      {"{\"loss\":1.5}", "has no step"},
      {"{\"step\":-1,\"loss\":1.5}", "has no step"},
      {"{\"step\":1.5,\"loss\":1.5}", "has no step"},
      {"{\"step\":\"2\",\"loss\":1.5}", "has no step"},
      {"{\"step\":18446744073709551615,\"loss\":1.5}", "has no step"},
      {"{\"step\":2,\"loss\":\"<script>\"}", "has a loss that is no number"},
      {"{\"step\":2,\"lr\":[1]}", "has a lr that is no number"},
      {"{\"step\":2,\"loss\":1e999}", "is no JSON object"},
  };
  for (const auto& [line, problem] : cases) {
    const RunRecord run = metrics(step_line(1, 2.0) + line + "\n" + step_line(3, 1.0));
    EXPECT_THAT(run.problems,
                ElementsAre("metrics.jsonl: 1 damaged line is left out: line 2 " + problem))
        << line;
    EXPECT_THAT(steps_of(*run.find("loss")), ElementsAre(1, 3)) << line;
  }
  const RunRecord many = metrics("x\nx\nx\nx\nx\n");
  EXPECT_THAT(many.problems, ElementsAre(AllOf(HasSubstr("5 damaged lines are left out: line 1 "),
                                               HasSubstr("line 3 "), HasSubstr(", and more"))));
}

TEST(RunRecord, IgnoresWhatItDoesNotKnowAndALineBeingWritten) {
  const RunRecord run =
      metrics(step_line(1, 2.0) + "{\"step\":2,\"new_kind\":{\"of\":[\"line\"]}}\n" +
              "{\"step\":2,\"eval_loss\":1.0,\"eval_f1\":[0.5,0.25]}\n" + "{\"step\":3,\"los");
  EXPECT_THAT(run.problems, IsEmpty());
  EXPECT_EQ(run.find("new_kind"), nullptr);
  EXPECT_EQ(run.find("eval_f1"), nullptr);
  EXPECT_THAT(steps_of(*run.find("loss")), ElementsAre(1));
}

TEST(RunRecord, KeepsNumbersThatWereNotFiniteAsGaps) {
  const RunRecord run = metrics(step_line(1, 2.0) + "{\"step\":2,\"loss\":null,\"lr\":1e305}\n");
  EXPECT_TRUE(std::isnan(run.find("loss")->back().value));
  EXPECT_TRUE(std::isnan(run.find("lr")->back().value)) << "beyond what a chart can scale";
  EXPECT_EQ(results_of(run).loss->value, 2.0);
}

TEST(RunRecord, SortsStepsAndKeepsTheLastLineOfEach) {
  const RunRecord run = metrics(step_line(3, 3.0) + step_line(1, 1.0) + step_line(3, 4.0));
  EXPECT_THAT(steps_of(*run.find("loss")), ElementsAre(1, 3));
  EXPECT_EQ(run.find("loss")->back().value, 4.0);
}

TEST(RunRecord, LimitsKeysAndEventsOfHostileFiles) {
  std::string lines;
  for (int i = 0; i < 1000; ++i) {
    lines += fmt::format(
        "{{\"step\":{0},\"eval_{0}\":1}}\n{{\"step\":{0},\"bad_step\":\"spike\"}}\n", i);
  }
  const RunRecord run = metrics(lines);
  EXPECT_LE(run.series.size(), 200u);
  EXPECT_EQ(run.events.size(), RunRecord::kMostEvents);
  EXPECT_EQ(run.skipped_steps, 1000);
}

TEST(RunRecord, TellsSkippedStepsAndRollbacks) {
  const RunRecord run = metrics(
      step_line(1, 2.0) +
      "{\"step\":7,\"bad_step\":\"loss\",\"grad_norm\":null,\"skipped_steps\":1,"
      "\"samples\":[1],\"first_not_finite\":\"blocks.1.mlp\"}\n"
      "{\"step\":8,\"bad_step\":\"spike\",\"grad_norm\":50.5,\"median\":2.0,\"skipped_steps\":2,"
      "\"samples\":[]}\n"
      "{\"step\":5,\"rollbacks\":1,\"failed_step\":9,\"bad_step\":\"loss\",\"grad_norm\":null,"
      "\"skipped_steps\":3,\"samples\":[]}\n");
  ASSERT_EQ(run.events.size(), 3u);
  EXPECT_EQ(run.events[0].kind, RunEvent::Kind::rollback);
  EXPECT_EQ(run.events[0].text, "went back to the checkpoint of step 5, because of step 9 (loss)");
  EXPECT_EQ(run.events[1].text,
            "changed no weight: the loss was not finite, first in blocks.1.mlp");
  EXPECT_EQ(run.events[2].text,
            "changed no weight: a spike, gradient norm 50.500 with a median of 2.000");
  EXPECT_EQ(run.skipped_steps, 2);
  EXPECT_EQ(run.rollbacks, 1);
}

TEST(RunRecord, TellsWarningsAndWhyARunFailed) {
  const RunRecord run = metrics(step_line(1, 2.0) +
                                "{\"step\":40,\"warning\":\"the run diverges\"}\n"
                                "{\"step\":60,\"failed\":\"the loss of step 60 is NaN\"}\n");
  ASSERT_EQ(run.events.size(), 2u);
  EXPECT_EQ(run.events[0].kind, RunEvent::Kind::warning);
  EXPECT_EQ(run.events[0].text, "the run diverges");
  EXPECT_EQ(run.events[1].kind, RunEvent::Kind::failure);
  EXPECT_EQ(run.events[1].step, 60);
  EXPECT_EQ(run.events[1].text, "failed: the loss of step 60 is NaN");
}

TEST(RunRecord, TellsRestartsOfASupervisedRun) {
  std::istringstream journal(
      "{\"event\":\"start\",\"time\":\"2026-11-25T17:05:00Z\",\"start\":1,\"step\":0,"
      "\"command\":[\"mpirun\",\"-np\",\"8\",\"tessera\"]}\n"
      "{\"event\":\"end\",\"start\":1,\"what\":\"rank 2 (host a) died by signal 9\","
      "\"reason\":\"failed\",\"seconds\":61.5,\"step\":40}\n"
      "{\"event\":\"host_left_out\",\"host\":\"a\",\"ranks\":6,\"tensor\":2}\n"
      "not JSON\n"
      "{\"event\":\"start\",\"time\":\"2026-11-25T17:06:30Z\",\"start\":2,\"step\":40,"
      "\"command\":[\"mpirun\",1,\"-np\",\"6\"]}\n");
  RunRecord run;
  read_journal(journal, run);
  ASSERT_EQ(run.starts.size(), 2u);
  EXPECT_EQ(run.starts[0].end, "rank 2 (host a) died by signal 9");
  EXPECT_EQ(run.starts[0].saved_step, 40);
  EXPECT_EQ(run.starts[1].command, "mpirun -np 6");
  EXPECT_EQ(run.starts[1].end, "");
  ASSERT_EQ(run.events.size(), 1u);
  EXPECT_EQ(run.events[0].step, 40);
  EXPECT_EQ(run.events[0].text,
            "started again from step 40: rank 2 (host a) died by signal 9; host a is left out: 6 "
            "ranks, 2 tensor ranks");
  EXPECT_THAT(run.problems, ElementsAre(HasSubstr("supervise.jsonl: 1 damaged line")));
}

TEST(RunRecord, ReadsKeysOfAnyVersion) {
  RunRecord run;
  read_keys("config.yaml", "future:\n  key: {a: 1, b: [x, null]}\n  empty:\nalone: 3\n", run);
  ASSERT_EQ(run.config.size(), 3u);
  EXPECT_EQ(run.config[0].name + "=" + run.config[0].value, "future.key={a: 1, b: [x, null]}");
  EXPECT_EQ(run.config[1].name + "=" + run.config[1].value, "future.empty=null");
  EXPECT_EQ(run.config[2].name + "=" + run.config[2].value, "alone=3");
  for (const char* damaged : {"a: [1", "- a\n", "just text", "", "a: &x 1"}) {
    RunRecord record;
    read_keys("config.yaml", damaged, record);
    EXPECT_THAT(record.config, IsEmpty()) << damaged;
    EXPECT_THAT(record.problems, ElementsAre(HasSubstr("config.yaml"))) << damaged;
    EXPECT_FALSE(record.has_finished());
  }
}

TEST(RunRecord, RefusesFoldersThatAreNoRuns) {
  const test::TestFolder folder;
  test::expect_error([&] { read_run(folder / "none"); }, {"none is not a folder: pass"});
  test::expect_error([&] { read_run(folder.path()); },
                     {"metrics.jsonl does not exist", "is not the folder of a run"});
  std::ofstream(folder / "metrics.jsonl") << step_line(1, 2.0);
  const RunRecord run = read_run(folder.path());
  EXPECT_THAT(run.problems, ElementsAre(HasSubstr("cannot be opened")));
  EXPECT_EQ(run.last_step, 1);
}

TEST(Thinned, KeepsExtremesAndGaps) {
  RunSeries series;
  for (int64_t i = 0; i < 100'000; ++i) {
    series.push_back({i, std::sin(static_cast<double>(i) * 0.01)});
  }
  series[40'001].value = 1000.0;
  series[77'777].value = -1000.0;
  series[90'000].value = std::nan("");
  const RunSeries thin = thinned(series, 3000);
  EXPECT_LE(thin.size(), 3000u);
  EXPECT_GE(thin.size(), 1900u);
  EXPECT_TRUE(std::ranges::is_sorted(thin, {}, &RunPoint::step));
  EXPECT_EQ(thin.front().step, 0);
  EXPECT_EQ(thin.back().step, 99'999);
  const auto has = [&](int64_t step) {
    return std::ranges::find(thin, step, &RunPoint::step) != thin.end();
  };
  EXPECT_TRUE(has(40'001) && has(77'777) && has(90'000));
  EXPECT_EQ(thinned({series.begin(), series.begin() + 3000}, 3000).size(), 3000u);
  EXPECT_EQ(thinned({}, 3000).size(), 0u);
  EXPECT_LE(thinned(series, 0).size(), 5u);
}

TEST(RunResults, AreTheBestOfEachRun) {
  const RunResults results = results_of(small_run());
  EXPECT_EQ(results.eval_loss->step, 10);
  EXPECT_EQ(results.eval_loss->value, 2.5);
  EXPECT_EQ(results.accuracy->value, 0.625);
  EXPECT_EQ(results.loss->value, 1.5);
  EXPECT_EQ(results.tokens_per_second, 1000.0);
  EXPECT_EQ(results.mfu, std::nullopt);
  EXPECT_EQ(results_of(metrics("")).loss, std::nullopt);
  const RunRecord choices = metrics(
      "{\"step\":1,\"eval_q_acc\":0.5,\"eval_q_acc_norm\":0.5}\n"
      "{\"step\":2,\"eval_q_acc\":0.25,\"eval_q_acc_norm\":0.5}\n");
  EXPECT_THAT(results_of(choices).choices, ElementsAre(std::pair(std::string("q"), 0.25)));
}

TEST(KeyDifferences, HasOnlyKeysThatDiffer) {
  const std::string other =
      "run:\n  dir: \"runs/b\"\nmodel:\n  kind: gpt2\n  num_layers: 4\ntrain:\n  steps: 40\n"
      "optimizer:\n  lr: 0.001\n  betas: [0.9, 0.98]\n  new_key: 7\n";
  const auto found = key_differences({small_run("a"), small_run("b", other), small_run("c")});
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].key, "run.dir");
  EXPECT_EQ(found[1].key, "train.steps");
  EXPECT_THAT(found[1].values, ElementsAre("20", "40", "20"));
  EXPECT_EQ(found[2].key, "optimizer.new_key");
  EXPECT_THAT(found[2].values, ElementsAre(std::nullopt, "7", std::nullopt));
  EXPECT_THAT(key_differences({small_run(), small_run()}), IsEmpty());
}

TEST(ShortNames, TellRunsApart) {
  const auto names = [](const std::vector<std::string>& paths) {
    std::vector<RunRecord> runs(paths.size());
    for (size_t i = 0; i < paths.size(); ++i) runs[i].path = paths[i];
    return short_names(runs);
  };
  EXPECT_THAT(names({"runs/a/run"}), ElementsAre("run"));
  EXPECT_THAT(names({"runs/a/run/", "./runs/b"}), ElementsAre("run", "b"));
  EXPECT_THAT(names({"runs/a/run", "runs/b/run/"}), ElementsAre("a/run", "b/run"));
  EXPECT_THAT(names({"/x/run", "/x/y/run", "run"}), ElementsAre("x/run", "y/run", "run"));
}

TEST(ReportPanels, ExistForWhatWasLogged) {
  std::vector<std::string> ids;
  for (const ReportPanel& panel : panels_for({small_run()})) ids.push_back(panel.id);
  EXPECT_THAT(ids, ElementsAre("loss", "accuracy", "lr", "grad_norm", "tokens_per_second",
                               "data_wait", "save"));
  const auto ids_of = [](const std::vector<RunRecord>& runs) {
    std::string text;
    for (const ReportPanel& panel : panels_for(runs)) text += panel.id + " ";
    return text;
  };
  const RunRecord slow = metrics("{\"step\":1,\"model_flops_per_second\":1e12}\n");
  const RunRecord fast = metrics("{\"step\":1,\"model_flops_per_second\":1e12,\"mfu\":0.5}\n");
  EXPECT_EQ(ids_of({slow}), "flops ");
  EXPECT_EQ(ids_of({fast}), "mfu ");
  EXPECT_EQ(ids_of({fast, slow}), "mfu flops ");
  const RunRecord other = metrics(
      "{\"step\":1,\"eval_micro_f1\":0.5,\"eval_most_frequent_token\":0.1,\"eval_<b>\":1}\n");
  EXPECT_EQ(ids_of({other}), "eval_micro_f1 ");
  const RunRecord choices = metrics(
      "{\"step\":1,\"eval_Q-1_acc\":0.5,\"eval_Q-1_acc_norm\":0.5,\"eval_Q-1_acc_stderr\":0.1,"
      "\"eval_Q-1_acc_norm_stderr\":0.1}\n");
  EXPECT_EQ(ids_of({choices}), "eval_Q-1_acc ");
  EXPECT_EQ(panels_for({choices})[0].series.size(), 2u);
  const RunRecord blend = metrics(
      "{\"step\":1,\"eval_loss\":1,\"eval_loss/wiki\":1,\"eval_loss/a.b <c>\":2,"
      "\"eval_bits_per_byte\":1,\"eval_bits_per_byte/wiki\":1}\n");
  EXPECT_EQ(ids_of({blend}), "loss dataset_loss dataset_bits eval_bits_per_byte ");
  EXPECT_EQ(panels_for({blend})[1].series[0].label, "a.b <c>");
  EXPECT_EQ(ids_of({metrics("{\"step\":1,\"noise_scale\":40}\n")}), "noise_scale ");
  EXPECT_EQ(ids_of({metrics("{\"step\":1,\"eval_loss\":1,\"eval_token_loss\":1}\n")}), "loss ");
  EXPECT_EQ(ids_of({metrics("{\"step\":1,\"loss\":3,\"token_loss\":1,\"document_loss\":2}\n")}),
            "loss losses ");
  EXPECT_EQ(ids_of({metrics("")}), "");
}

TEST(ReportPage, HasChartsResultsAndConfigurationOfARun) {
  const std::string page = to_html({small_run()}, {.written = "now", .reload_seconds = {}});
  EXPECT_THAT(page,
              AllOf(HasSubstr("<title>a: training report</title>"), HasSubstr("gpt2 · 4 layers"),
                    HasSubstr("<dt>step</dt><dd>20 <small>of 20</small>"),
                    HasSubstr("<dt>lowest evaluation loss</dt><dd>2.5000 <small>step 10<"),
                    HasSubstr("<dt>highest accuracy</dt><dd>62.5% <small>step 20<"),
                    HasSubstr("<summary>config.yaml</summary><pre>run:\n"),
                    Not(HasSubstr("Keys that differ")), Not(HasSubstr("reload every"))));
  const Json json = json_in(page);
  EXPECT_EQ(json.at("panels").size(), 7u);
  const Json& series = json.at("runs").at(0).at("series");
  EXPECT_EQ(series.at("loss").dump(), "{\"x\":[1,10,20],\"y\":[4.0,2.0,1.5]}");
  EXPECT_EQ(series.at("tokens").at("y").dump(), "[512.0,5120.0,10240.0]");
}

TEST(ReportPage, ComparesRuns) {
  std::string other = kConfig;
  other.replace(other.find("0.001"), 5, "0.002");
  RunRecord worse = small_run("runs/b", other);
  for (RunPoint& point : worse.series["eval_loss"]) point.value += 1.0;
  const std::string page = to_html({small_run(), worse}, {.written = "now", .reload_seconds = {}});
  EXPECT_THAT(page, AllOf(HasSubstr("<h1>2 runs compared</h1>"),
                          HasSubstr("<td class=\"n best\">2.5000 <small>step 10</small></td>"),
                          HasSubstr("<td class=\"n\">3.5000 <small>step 10</small></td>"),
                          HasSubstr("<td><code>optimizer.lr</code></td><td><code>0.001</code></td>"
                                    "<td><code>0.002</code></td>"),
                          Not(HasSubstr("<code>train.steps</code>"))));
}

TEST(ReportPage, ReloadsWhileARunIsAlive) {
  const std::string page = to_html({small_run()}, {.written = "now", .reload_seconds = 15});
  EXPECT_THAT(page, AllOf(HasSubstr("<noscript><meta http-equiv=\"refresh\" content=\"15\">"),
                          HasSubstr("reload every 15 s")));
  EXPECT_EQ(json_in(page).at("reload_seconds"), 15);
}

TEST(ReportPage, EscapesTextOfRuns) {
  const std::string script = "</script><script>alert(1)</script>";
  RunRecord run = small_run("runs/" + script + "\x1b[2J\"'\xFF");
  run.config.push_back({"data.train", script + "\n\x01"});
  run.config.push_back({"model.kind", script});
  run.config_text = "data:\n  train: " + script + "\n<!-- &lt;\n";
  run.problems.push_back(script);
  run.events.push_back({RunEvent::Kind::restart, 10, script + "\x1b[2J"});
  run.starts.push_back({.time = script, .command = script, .layout = script, .end = script});
  RunRecord other = small_run("runs/b");
  for (const std::vector<RunRecord>& runs : {std::vector{run}, std::vector{run, other}}) {
    const std::string page =
        to_html(runs, {.written = script, .reload_seconds = {}, .plans = {script}});
    // The page's own two: its data and its script.
    EXPECT_EQ(count(page, "<script"), 2u);
    EXPECT_EQ(count(page, "</script"), 2u);
    EXPECT_EQ(count(page, "<!--"), 0u);
    EXPECT_EQ(count(page, "alert(1)"),
              count(page, "script&gt;alert(1)") + count(page, "script\\u003ealert(1)"));
    EXPECT_THAT(page, Not(HasSubstr("\x1b")));
    EXPECT_THAT(page, HasSubstr("\\x1b[2J"));
    EXPECT_EQ(json_in(page).at("runs").at(0).at("events").at(0).at("text"), script + "\\x1b[2J");
  }
}

RunRecord with_samples(RunRecord run, const std::string& lines) {
  std::istringstream stream(lines);
  read_samples(stream, run);
  return run;
}

std::string sample_line(int64_t step, const std::string& prompt, const std::string& text) {
  return Json{{"step", step}, {"prompt", prompt}, {"text", text}}.dump() + "\n";
}

TEST(RunRecord, HasSamplesByStep) {
  RunRecord run = with_samples(
      {}, sample_line(4, "a", "x") + "{\"step\":4,\"prompt\":\"b\"}\n[]\n" +
              sample_line(2, "a", "w") + sample_line(4, "b", std::string(30'000, 'y')) +
              "{\"step\":5,\"prompt\":\"a\",\"text\":\"unfin");
  ASSERT_EQ(run.samples.size(), 2u);
  EXPECT_EQ(run.samples[0].step, 2);
  ASSERT_EQ(run.samples[1].texts.size(), 2u);
  EXPECT_EQ(run.samples[1].texts[0].text, "x");
  EXPECT_EQ(run.samples[1].texts[1].text, std::string(20'000, 'y') + "…");
  EXPECT_THAT(run.problems,
              ElementsAre("samples.jsonl: 2 damaged lines are left out: line 2 has no text, line 3 "
                          "is no JSON object"));
  std::string many;
  for (int64_t step = 1; step <= 1000; ++step) many += sample_line(step, "a", "x");
  run = with_samples({}, many);
  EXPECT_EQ(run.samples.size(), RunRecord::kMostSamples);
  EXPECT_EQ(run.samples.front().step, 1);
  EXPECT_EQ(run.samples.back().step, 1000);
}

TEST(ReportPage, ShowsSamplesAsText) {
  const std::string script = "</script><script>alert(1)</script>";
  const RunRecord run =
      with_samples(small_run(), sample_line(10, "once", "first") +
                                    sample_line(20, script, "a\n\tb\x1b[2J" + script) +
                                    sample_line(20, "", "<b>"));
  EXPECT_EQ(count(to_html({small_run()}, {.written = "now", .reload_seconds = {}}),
                  "<section id=\"samples\">"),
            0u);
  const std::string page = to_html({run}, {.written = "now", .reload_seconds = {}});
  EXPECT_THAT(page, AllOf(HasSubstr("<section id=\"samples\"><h2>Samples</h2>"),
                          HasSubstr("<small>step 20</small></h3><dl><dt>&lt;/script&gt;"),
                          HasSubstr("<dd>a\n\tb\\x1b[2J&lt;/script&gt;"),
                          HasSubstr("<dt></dt><dd>&lt;b&gt;</dd></dl>"), Not(HasSubstr("\x1b"))));
  EXPECT_EQ(count(page, "<script"), 2u);
  const Json samples = json_in(page).at("runs").at(0).at("samples");
  EXPECT_EQ(samples.at(0).dump(), "{\"step\":10,\"texts\":[[\"once\",\"first\"]]}");
  EXPECT_EQ(samples.at(1).at("texts").at(0).at(1), "a\n\tb\\x1b[2J" + script);
  const std::string both =
      to_html({small_run("runs/b"), run}, {.written = "now", .reload_seconds = {}});
  EXPECT_THAT(both, HasSubstr("<div class=\"samples\" data-run=\"1\"><h3><span class=\"run\""));
  EXPECT_THAT(both, Not(HasSubstr("<div class=\"samples\" data-run=\"0\">")));
}

TEST(ReportPage, ShowsMapsOfHeads) {
  RunRecord run = small_run();
  Json json = to_json(test::causal_report({"<b>", "c"}, 2, 1));
  json["step"] = 15;
  std::istringstream file(json.dump());
  read_attention(file, run);
  ASSERT_THAT(run.problems, IsEmpty());
  const std::string page = to_html({run}, {.written = "now", .reload_seconds = {}});
  EXPECT_THAT(page, AllOf(HasSubstr("<h2>Attention</h2>"), HasSubstr("<summary>step 15<"),
                          HasSubstr("layer 1, head 0</figcaption><svg class=\"map\""),
                          HasSubstr("img-src data:"), HasSubstr("&lt;b&gt;")));
  EXPECT_EQ(count(page, "<b></text>"), 0u);
  EXPECT_EQ(count(page, "href=\"#attention-0-0-0-i"), 2u);
  for (const std::string damaged : {"[1]", "{", "{\"step\":1}"}) {
    std::istringstream text(damaged);
    RunRecord other = small_run();
    read_attention(text, other);
    EXPECT_EQ(other.problems.size(), 1u) << damaged;
    EXPECT_FALSE(other.attention.has_value());
  }
  // A weight of a hidden key.
  json["sequences"][0]["heads"][0]["weights"][0][1] = 0.5;
  std::istringstream wrong(json.dump());
  read_attention(wrong, run);
  EXPECT_THAT(run.problems, ElementsAre(HasSubstr("is hidden from query 0, but has a weight")));
}

TEST(ReportPage, LoadsNothing) {
  const std::string page = to_html({small_run()}, {.written = "now", .reload_seconds = {}});
  EXPECT_THAT(page, HasSubstr("content=\"default-src 'none'; style-src 'unsafe-inline'; "
                              "script-src 'unsafe-inline'\">"));
  EXPECT_EQ(count(page, "src=\""), 0u);
  EXPECT_EQ(count(page, "http"),
            count(page, "http-equiv") + count(page, "http://www.w3.org/2000/svg"));
}

TEST(ReportPage, IsWrittenForARunWithoutValues) {
  const std::string page = to_html({metrics("")}, {.written = "now", .reload_seconds = {}});
  EXPECT_THAT(page, HasSubstr("Nothing is logged yet."));
  test::expect_error(
      [] { to_html(std::vector<RunRecord>{}, {.written = "", .reload_seconds = {}}); },
      {"at least one run"});
}

TEST(WriteReport, WritesThePageInTheRunsFolder) {
  const test::TestFolder folder;
  std::ofstream(folder / "metrics.jsonl") << step_line(20, 2.0);
  std::ofstream(folder / "config.yaml") << kConfig;
  const ReportOptions options{{folder.path()}, "", std::nullopt};
  write_report(options);
  EXPECT_EQ(report_file(options), folder / "report.html");
  EXPECT_TRUE(std::filesystem::exists(folder / "report.html"));
  EXPECT_EQ(report_file({{"a", "b"}, "", std::nullopt}), "report.html");
  test::expect_error(
      [&] {
        write_report({{folder.path(), folder / "."}, "x", std::nullopt});
      },
      {"is given twice"});
  // All steps are done, so there is nothing to watch.
  write_report({{folder.path()}, folder / "new" + "/page.html", 3600});
  EXPECT_TRUE(std::filesystem::exists(folder / "new/page.html"));
}

}  // namespace
}  // namespace tessera
