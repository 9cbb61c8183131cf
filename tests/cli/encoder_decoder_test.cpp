#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <sstream>
#include <utility>

#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

using Json = nlohmann::json;
using Pair = std::pair<std::string, std::string>;

/// Letters, and the same letters backwards.
Pair reversed(std::mt19937& draws) {
  std::string text(1 + draws() % 8, ' ');
  for (char& letter : text) letter = static_cast<char>('a' + draws() % 10);
  return {text, std::string(text.rbegin(), text.rend())};
}

/// A date in one of three forms, and in that of ISO 8601.
Pair date(std::mt19937& draws) {
  constexpr const char* kMonths[] = {"January",   "February", "March",    "April",
                                     "May",       "June",     "July",     "August",
                                     "September", "October",  "November", "December"};
  const unsigned year = 1900 + draws() % 200, month = 1 + draws() % 12, day = 1 + draws() % 28;
  const char* name = kMonths[month - 1];
  const std::string forms[] = {fmt::format("{} {} {}", day, name, year),
                               fmt::format("{} {}, {}", name, day, year),
                               fmt::format("{}.{}.{}", day, month, year)};
  return {forms[draws() % 3], fmt::format("{}-{:02}-{:02}", year, month, day)};
}

/// Pairs in turns: one backwards, one date.
std::vector<Pair> pairs(int count, uint32_t seed) {
  std::mt19937 draws(seed);
  std::vector<Pair> all;
  for (int i = 0; i < count; ++i) all.push_back(i % 2 == 0 ? reversed(draws) : date(draws));
  return all;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

class CliEncoderDecoder : public SmallRun {
 protected:
  CliEncoderDecoder() {
    std::string train = "source\ttarget\n", sources;
    for (const auto& [source, target] : pairs(20000, 1)) train += source + "\t" + target + "\n";
    for (const auto& [source, target] : unseen_) sources += source + "\n";
    write_text(path("train.tsv"), train);
    write_text(path("sources.txt"), sources);
  }

  Arguments keys(const Arguments& more = {}) const {
    Arguments all = {"model.kind=encoder_decoder", "model.positions=rotary",
                     "model.source_length=32", "data.train=" + path("train.tsv").string(),
                     "data.tokenizer=byte"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  Outcome generate(int ranks, const Arguments& more) const {
    Arguments arguments = {"generate", path("run").string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(tessera(ranks, arguments));
  }

  /// The sequences in the report of `tessera attention`.
  Json attention(int ranks, const Arguments& more) const {
    Arguments arguments = {"attention", path("run").string(), "--output", path("look").string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    expect_success(run(tessera(ranks, arguments)));
    return Json::parse(read_text(path("look.json")))["sequences"];
  }

  /// The targets that the run writes for the unseen sources.
  std::vector<std::string> targets(int ranks, const Arguments& more) const {
    Arguments arguments = {"--input", path("sources.txt").string(), "--output",
                           path("targets.tsv").string(), "--overwrite"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    expect_success(generate(ranks, arguments));
    std::vector<std::string> lines = lines_of(read_text(path("targets.tsv")));
    EXPECT_EQ(lines.empty() ? "" : lines[0], "target");
    if (!lines.empty()) lines.erase(lines.begin());
    return lines;
  }

  const std::vector<Pair> unseen_ = pairs(400, 2);
};

TEST_F(CliEncoderDecoder, LearnsToReverseTextsAndToWriteDates) {
  expect_success(run_train(
      kAlone, "run",
      keys({"model.hidden_size=64", "batch.global=64", "batch.micro=64", "train.steps=800",
            "optimizer.lr=3e-3", "optimizer.warmup_steps=100", "optimizer.eps=1e-8",
            "model.init_stddev=0.02", "log.interval=100", "run.precision=fp32"})));
  const std::vector<Arguments> searches = {{}, {"--beams", "4"}, {"--temperature", "0.1"}};
  for (const Arguments& search : searches) {
    SCOPED_TRACE(search.empty() ? "greedy" : search[0]);
    const std::vector<std::string> found = targets(kAlone, search);
    ASSERT_EQ(found.size(), unseen_.size());
    size_t right[2] = {};
    for (size_t i = 0; i < found.size(); ++i) right[i % 2] += found[i] == unseen_[i].second;
    EXPECT_GT(right[0], 198u) << "of 200 reversed texts";
    EXPECT_GT(right[1], 198u) << "of 200 dates";
    EXPECT_EQ(targets(2, search), found) << "on 2 data ranks";
    Arguments sharded = search;
    sharded.insert(sharded.end(), {"--tensor", "2", "--micro-batch", "7"});
    EXPECT_EQ(targets(2, sharded), found) << "on 2 tensor ranks";
  }
  for (const int ranks : {kAlone, 2}) {
    EXPECT_EQ(generate(ranks, {"--prompt", "abcde"}).output, "edcba\n");
    const Arguments ids = {"--ids", "97 98 99 100 101"};
    EXPECT_EQ(generate(ranks, ids).output, "101 100 99 98 97\n");
    EXPECT_EQ(generate(ranks, {"--prompt", "May 3, 1999", "--beams", "3"}).output, "1999-05-03\n");
    for (const Arguments& way : {Arguments{"--stream"}, Arguments{"--beams", "3"}}) {
      Arguments stopped = {"--prompt", "May 3, 1999", "--stop", "05", "--stop", "-03"};
      stopped.insert(stopped.end(), way.begin(), way.end());
      EXPECT_EQ(generate(ranks, stopped).output, "1999-\n") << way[0];
    }
    EXPECT_EQ(attention(ranks, {"--source", "abcde"})[0]["target"]["tokens"],
              Json({"[END]", "e", "d", "c", "b", "a"}));
  }
}

TEST_F(CliEncoderDecoder, ShardedAndResumedMatchWholeRun) {
  expect_success(run_train(kAlone, "whole", keys()));
  expect_success(run_train(4, "run", keys({"--stop-at=10", "parallel.tensor=2"})));
  expect_success(run_train(2, "run", keys({"parallel.zero=3"})));
  expect_near(losses("run"), losses("whole"));
}

/// Expects rows that sum to 1, and returns the weights of each head, by query and key.
std::vector<std::vector<double>> rows_of(const Json& attention, size_t queries, size_t keys) {
  std::vector<std::vector<double>> rows;
  EXPECT_EQ(attention["hidden"].size(), queries);
  for (const Json& head : attention["heads"]) {
    EXPECT_EQ(head["weights"].size(), queries);
    for (const Json& row : head["weights"]) {
      rows.push_back(row.get<std::vector<double>>());
      EXPECT_EQ(rows.back().size(), keys);
      EXPECT_NEAR(std::accumulate(rows.back().begin(), rows.back().end(), 0.0), 1.0, 1e-5);
    }
  }
  return rows;
}

TEST_F(CliEncoderDecoder, ShowsAttentionOfBothTextsOnAnyLayout) {
  expect_success(run_train(kAlone, "run", keys({"train.steps=3", "model.num_decoder_layers=1"})));
  const Arguments pair = {"--source", "May 3", "--target", "05-03"};
  const Json alone = attention(kAlone, pair)[0], split = attention(2, pair)[0];
  EXPECT_EQ(alone["source"]["tokens"], Json({"M", "a", "y", " ", "3", "[END]"}));
  EXPECT_EQ(alone["target"]["tokens"], Json({"[END]", "0", "5", "-", "0", "3"}));
  ASSERT_EQ(alone["attentions"].size(), 3u);
  const size_t layers[] = {2, 1, 1};
  const char* names[] = {"encoder", "decoder", "cross"};
  for (size_t i = 0; i < 3; ++i) {
    SCOPED_TRACE(names[i]);
    const Json& maps = alone["attentions"][i];
    EXPECT_EQ(maps["attention"], names[i]);
    EXPECT_EQ(maps["heads"].size(), layers[i] * 4);
    EXPECT_EQ(maps["hidden"][0][5], i == 1 ? 1 : 0) << "only the decoder is causal";
    const auto expected = rows_of(maps, 6, 6);
    const auto actual = rows_of(split["attentions"][i], 6, 6);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t row = 0; row < expected.size(); ++row) {
      for (size_t s = 0; s < 6; ++s) EXPECT_NEAR(actual[row][s], expected[row][s], 1e-5);
    }
  }
  EXPECT_NE(read_text(path("look.html")).find("Cross-attention"), std::string::npos);

  const Json written = attention(2, {"--source", "abc", "--source", "de"});
  ASSERT_EQ(written.size(), 2u);
  rows_of(written[0]["attentions"][2], written[0]["target"]["ids"].size(), 4);
  rows_of(written[1]["attentions"][2], written[1]["target"]["ids"].size(), 3);

  // Only the encoder has a layer 1.
  const Json chosen = attention(kAlone, {"--source", "abc", "--layer", "1", "--head", "3"});
  ASSERT_EQ(chosen[0]["attentions"].size(), 1u);
  EXPECT_EQ(chosen[0]["attentions"][0]["attention"], "encoder");
  EXPECT_EQ(chosen[0]["attentions"][0]["heads"].size(), 1u);
}

TEST_F(CliEncoderDecoder, NamesWrongOptionsOfAttention) {
  expect_success(run_train(kAlone, "run", keys({"train.steps=3"})));
  expect_success(run_train(kAlone, "gpt", {"train.steps=3"}));
  const auto refused = [&](int ranks, const char* name, const Arguments& more,
                           const Arguments& facts) {
    Arguments arguments = {"attention", path(name).string(), "--output", path("look").string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    expect_refused(run(tessera(ranks, arguments)), facts);
  };
  for (const int ranks : {kAlone, 2}) {
    refused(ranks, "run", {"--text", "a"}, {"--text is for models that read one text", "--source"});
    refused(ranks, "run", {"--ids", "1"}, {"--ids is for models that read one text", "--source"});
    refused(ranks, "run", {"--source", ""}, {"--source: the source has no tokens"});
    refused(ranks, "run", {"--source", "a", "--target", std::string(40, 'b')},
            {"the target has 40 tokens", "model.seq_length"});
    refused(ranks, "run", {"--source", "a", "--layer", "2"}, {"the model has layers 0 to 1"});
    refused(ranks, "gpt", {"--source", "a"}, {"--source is for encoder-decoders", "--text"});
  }
  refused(kAlone, "run", {"--source", "a", "--pack"}, {"--source", "excludes", "--pack"});
  refused(kAlone, "run", {"--source", "a", "--text", "b"}, {"--source", "excludes", "--text"});
  refused(kAlone, "run", {"--text", "a", "--target", "b"}, {"--target requires --source"});
  refused(kAlone, "run", {"--source", "a", "--source", "b", "--target", "c"},
          {"--target: there are 1 for 2 --source"});
}

TEST_F(CliEncoderDecoder, NamesWrongOptionsAndInputs) {
  expect_success(run_train(kAlone, "run", keys({"train.steps=3"})));
  write_text(path("long.txt"), "fits\n" + std::string(40, 'x') + "\n");
  write_text(path("empty.txt"), "fits\n\n");
  const auto file = [&](const char* name) {
    return Arguments{"--input", path(name).string(), "--output", path("out.tsv").string()};
  };
  for (const int ranks : {kAlone, 2}) {
    expect_refused(generate(ranks, file("long.txt")),
                   {"long.txt:2: the source has 40 tokens", "model.source_length is 32"});
    expect_refused(generate(ranks, file("empty.txt")), {"empty.txt:2: the line is empty"});
  }
  expect_refused(generate(2, {"--prompt", "a", "--beams", "0"}), {"--beams"});
  expect_refused(generate(kAlone, {"--prompt", "a", "--top-k", "3"}),
                 {"--top-k and --top-p are for sampling", "--temperature above 0"});
  expect_refused(generate(kAlone, {"--prompt", "a", "--max-tokens", "0"}),
                 {"--max-tokens is 0", "choose 1 or more"});
  expect_refused(generate(kAlone, {"--prompt", "a", "--chat", "auto"}),
                 {"--chat is for models that continue a text", "--prompt, or its ids with --ids"});
  expect_refused(generate(kAlone, {"--prompt", "a", "--beams", "2", "--stream"}),
                 {"--stream shows a text", "2 beams", "leave out --stream or --beams"});
  Arguments truncated = file("long.txt");
  truncated.emplace_back("--truncate");
  expect_success(generate(kAlone, truncated));
  expect_refused(generate(kAlone, {"--prompt", "a", "--beams", "2", "--temperature", "1"}),
                 {" excludes "});

  expect_success(run_train(kAlone, "gpt", {"train.steps=3"}));
  expect_refused(
      run(tessera(2, {"generate", path("gpt").string(), "--prompt", "a", "--beams", "2"})),
      {"--beams is for encoder-decoders"});

  const Arguments wrong[] = {
      {"span_corruption.sentinels=7", "train.tsv has pairs of texts", "span_corruption"},
      {"data.tokenizer=auto", "data.tokenizer is auto, but pairs of texts have no tokenizer"},
      {"data.short_samples=pack", "data.short_samples", "encoder_decoder"},
      {"mlm.probability=0.3", "mlm", "encoder_decoder"},
      {"model.source_length=4", "train.tsv:2: the source has", "model.source_length is 4"}};
  for (const Arguments& set : wrong) {
    const int ranks = &set == wrong ? 2 : kAlone;
    expect_refused(run_train(ranks, "wrong", keys({set[0]})), {set.begin() + 1, set.end()});
  }
}

}  // namespace
}  // namespace tessera::test
