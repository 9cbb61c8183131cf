#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

#include "launch/support/text/json.h"
#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

using testing::HasSubstr;

constexpr int kQuestions = 50;

std::string question(int i) { return fmt::format("What color is thing {}?", i); }

std::string answer(int i) {
  constexpr const char* kColors[] = {"red", "green", "blue", "yellow", "black", "white", "grey"};
  return kColors[(3 * i + i / 10) % 7];
}

/// A decoder of bytes that is fine-tuned on questions and answers.
class CliSft : public SmallRun {
 protected:
  CliSft() {
    std::string prompts, messages;
    for (int i = 0; i < kQuestions; ++i) {
      const Json user = {{"role", "user"}, {"content", question(i)}};
      const Json reply = {{"role", "assistant"}, {"content", answer(i)}};
      messages += Json({{"messages", {user, reply}}}).dump() + "\n";
      prompts += Json({{"prompt", question(i) + " "}, {"completion", answer(i)}}).dump() + "\n";
    }
    write_text(path("prompts.jsonl"), prompts);
    write_text(path("messages.jsonl"), messages);
  }

  std::string file(const std::string& name) const { return path(name).string(); }

  /// The keys of all runs, which have the same model.
  static Arguments with(const Arguments& more) {
    Arguments keys = {"model.seq_length=96",    "model.hidden_size=64", "model.positions=rotary",
                      "model.init_stddev=0.02", "log.interval=50",      "batch.global=8"};
    keys.insert(keys.end(), more.begin(), more.end());
    return keys;
  }

  void pretrain() const { expect_success(run_train(kAlone, "base", with({"train.steps=20"}))); }

  Arguments tune(const std::string& data, const Arguments& more = {}) const {
    Arguments keys = with(
        {"data.train=" + file(data), "checkpoint.from=" + file("base"), "data.eval=" + file(data)});
    keys.insert(keys.end(), more.begin(), more.end());
    return keys;
  }

  Arguments learn(const std::string& data) const {
    return tune(data, {"train.steps=800", "optimizer.lr=4e-3", "optimizer.eps=1e-8",
                       "optimizer.weight_decay=0", "eval.interval=800"});
  }

  /// Counts the questions that the run answers rightly.
  int right_answers(const std::string& run_name, const std::string& after,
                    const Arguments& more) const {
    int right = 0;
    for (int i = 0; i < kQuestions; i += 5) {
      const std::string prompt = question(i) + after;
      Arguments arguments = {"generate", file(run_name), "--prompt", prompt, "--temperature", "0"};
      arguments.insert(arguments.end(), more.begin(), more.end());
      const Outcome outcome = run(tessera(kAlone, arguments));
      expect_success(outcome);
      const std::string shown = more.empty() ? prompt : "";
      right += outcome.output == shown + answer(i) + "\n" ? 1 : 0;
    }
    return right;
  }
};

TEST_F(CliSft, LearnsToCompletePrompts) {
  pretrain();
  const Outcome outcome = run_train(kAlone, "tuned", learn("prompts.jsonl"));
  expect_success(outcome);
  EXPECT_THAT(outcome.output, HasSubstr("prompts.jsonl: 50 examples of "));
  EXPECT_EQ(right_answers("tuned", " ", {}), kQuestions / 5);

  const Outcome evaluated =
      run(tessera(2, {"eval", file("tuned"), "--data", file("prompts.jsonl"), "--json"}));
  expect_success(evaluated);
  const Json report = parse_json(evaluated.output, "eval");
  EXPECT_LT(report.at("perplexity").get<double>(), 1.1);
  EXPECT_LT(report.at("token_targets").get<int64_t>(), report.at("tokens").get<int64_t>() / 2);
  // A configuration that leaves data.packing out, as the run's own did.
  write_text(path("least.yaml"),
             "data: {train: " + file("prompts.jsonl") + "}\ntrain: {steps: 1}\n");
  const Outcome by_config = run(tessera(kAlone, {"eval", file("tuned"), "--config",
                                                 file("least.yaml"), "--part", "train", "--json"}));
  expect_success(by_config);
  EXPECT_EQ(parse_json(by_config.output, "eval").at("token_targets"), report.at("token_targets"));
  const Outcome before =
      run(tessera(2, {"eval", file("base"), "--data", file("prompts.jsonl"), "--json"}));
  expect_success(before);
  const Json base = parse_json(before.output, "eval");
  EXPECT_EQ(base.at("token_targets"), report.at("token_targets"));
  EXPECT_GT(base.at("perplexity").get<double>(), 5.0);
}

// What transformers needs to chat with the model.
TEST_F(CliSft, ExportsTheTemplateOfMessages) {
  const Arguments model = {"model.kind=llama", "model.seq_length=96", "train.steps=1",
                           "optimizer.warmup_steps=0"};
  expect_success(run_train(kAlone, "base", model));
  const auto train = [&](const char* name, const char* data, const Arguments& more) {
    Arguments keys = {"data.train=" + file(data), "data.truncate=true",
                      "checkpoint.from=" + file("base")};
    keys.insert(keys.end(), model.begin(), model.end());
    keys.insert(keys.end(), more.begin(), more.end());
    expect_success(run_train(kAlone, name, keys));
    expect_success(run(tessera(kAlone, {"export", file(name), "--to", file(name) + "_out"})));
    const auto read = [&](const char* part) {
      return parse_json(read_text(path(std::string(name) + "_out") / part), part);
    };
    return std::pair(read("tokenizer_config.json"), read("generation_config.json"));
  };
  const auto [tokenizer, generation] = train("replies", "messages.jsonl", {});
  EXPECT_THAT(tokenizer.at("chat_template").get<std::string>(),
              HasSubstr("message['role'] + ':\\n' + message['content'] + (eos_token"));
  EXPECT_EQ(generation.at("eos_token_id"), 256);
  const auto [plain, unchanged] = train("completions", "prompts.jsonl", {});
  EXPECT_FALSE(plain.contains("chat_template")) << "nothing surrounds prompts";
  EXPECT_EQ(unchanged.at("eos_token_id"), 256);

  // A LoRA run and its adapters.
  const auto [with_lora, ends] = train("lora", "messages.jsonl", {"model.lora_rank=2"});
  EXPECT_EQ(with_lora.at("chat_template"), tokenizer.at("chat_template"));
  expect_success(run(tessera(kAlone, {"export", file("lora"), "--to", file("adapter"), "--adapter",
                                      "--precision", "bf16"})));
  EXPECT_TRUE(std::filesystem::exists(path("adapter") / "adapter_model.safetensors"));
  const auto base_of = [&](const char* folder) {
    const char* const name = "adapter_config.json";
    return parse_json(read_text(path(folder) / name), name).at("base_model_name_or_path");
  };
  EXPECT_EQ(base_of("adapter"), nullptr);
  expect_success(run(tessera(
      kAlone, {"export", file("lora"), "--to", file("named"), "--adapter", "--base", "out/base"})));
  EXPECT_EQ(base_of("named"), "out/base");
  expect_success(run(
      tessera(kAlone, {"import", file("adapter"), "--base", file("base"), "--to", file("again")})));
  expect_success(run(tessera(2, {"eval", file("again"), "--data", file("messages.jsonl")})));
  expect_refused(run(tessera(kAlone, {"import", file("adapter"), "--to", file("none")})),
                 {"has the adapters of a model: add --base"});
  expect_refused(run(tessera(kAlone, {"export", file("base"), "--to", file("none"), "--adapter"})),
                 {"has no low-rank adapters"});
}

TEST_F(CliSft, LearnsToReply) {
  pretrain();
  const Outcome tuned = run_train(kAlone, "tuned", learn("messages.jsonl"));
  expect_success(tuned);
  EXPECT_THAT(tuned.output, HasSubstr(" in template plain, of which the model learns "));
  EXPECT_EQ(right_answers("tuned", "", {"--chat", "auto"}), kQuestions / 5);

  write_text(path("questions.txt"), question(3) + "\n" + question(11) + "\n");
  expect_success(
      run(tessera(2, {"generate", file("tuned"), "--input", file("questions.txt"), "--output",
                      file("replies.tsv"), "--temperature", "0", "--chat", "auto"})));
  EXPECT_EQ(read_text(path("replies.tsv")),
            "generated_text\n" + answer(3) + "\n" + answer(11) + "\n");
  for (const int ranks : {kAlone, 2}) {
    // mpirun passes on what a rank prints in any order of its two outputs.
    const auto chat = [&](const std::string& redirected, const Arguments& more = {}) {
      Arguments command = {"sh", "-c", "exec \"$@\" " + redirected, "sh"};
      const Arguments program = tessera(ranks, {"chat", file("tuned"), "--temperature", "0"});
      command.insert(command.end(), program.begin(), program.end());
      command.insert(command.end(), more.begin(), more.end());
      return run(command);
    };
    const std::string questions = "<" + file("questions.txt");
    const Outcome outcome = chat(questions + " 2>" + file("notes.txt"));
    expect_success(outcome);
    EXPECT_EQ(outcome.output, answer(3) + "\n" + answer(11) + "\n");
    EXPECT_THAT(read_text(path("notes.txt")),
                HasSubstr("(forgotten: the oldest message and its reply; the model sees 96 "
                          "tokens)\n"))
        << "two questions do not fit into the context";
    write_text(path("commands.txt"),
               question(3) + "\n/reset\n" + question(11) + "\n/exit\n" + question(3) + "\n");
    const Outcome commands = chat("<" + file("commands.txt") + " 2>" + file("notes.txt"));
    EXPECT_EQ(commands.output, outcome.output);
    EXPECT_THAT(read_text(path("notes.txt")), testing::Not(HasSubstr("forgotten")));
    expect_refused(chat(questions, {"--system", std::string(90, 'x')}),
                   {"chat: the message has ", "of which 24 are for the reply"});
  }
  expect_refused(
      run(tessera(kAlone, {"generate", file("tuned"), "--prompt", std::string(97, 'a')})),
      {"--prompt: the prompt has 97 tokens, but the model sees 96 at once", "--truncate"});
  expect_success(run(tessera(kAlone, {"generate", file("tuned"), "--prompt", std::string(97, 'a'),
                                      "--max-tokens", "1", "--truncate"})));
  expect_refused(
      run(tessera(kAlone, {"generate", file("tuned"), "--prompt", "a", "--chat", "chatml"})),
      {"data.chat_template is chatml", "<|im_start|>"});
  expect_refused(
      run(tessera(kAlone, {"generate", file("tuned"), "--prompt", "a", "--chat", "jinja"})),
      {"'jinja' is none of: auto, chatml, plain"});
  expect_refused(
      run(tessera(kAlone, {"generate", file("tuned"), "--prompt", "a", "--system", "b"})),
      {"--system requires --chat"});
}

TEST_F(CliSft, ShardedAndResumedMatchWholeRun) {
  pretrain();
  const auto keys = [&](const Arguments& more) {
    Arguments all = tune("messages.jsonl", {"log.interval=1", "data.loss_on_prompts=true"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  expect_success(run_train(kAlone, "whole", keys({})));
  expect_success(run_train(4, "run", keys({"--stop-at=10", "parallel.tensor=2"})));
  expect_success(run_train(2, "run", keys({"parallel.zero=1"})));
  expect_near(losses("run"), losses("whole"));
}

TEST_F(CliSft, NamesWhatDoesNotFit) {
  pretrain();
  write_text(path("bad.jsonl"), R"({"prompt": "a", "completion": "b"})"
                                "\n"
                                R"({"prompt": "a", "completion": ""})");
  const std::vector<Arguments> wrong = {
      {"data.train=" + file("bad.jsonl"), "bad.jsonl:2: the completion has no tokens"},
      {"checkpoint.from=null", "data.tokenizer is auto, but prompts and completions have no"},
      {"data.packing=concatenate", "data.packing is concatenate", "choose documents"},
      {"data.chat_template=plain", "data.chat_template is set", "prompts.jsonl"},
      {"data.separate_documents=true", "data.separate_documents", "data.packing is documents"},
  };
  for (const Arguments& set : wrong) {
    expect_refused(run_train(2, "wrong", tune("prompts.jsonl", {set[0]})),
                   {set.begin() + 1, set.end()});
  }
}

}  // namespace
}  // namespace tessera::test
