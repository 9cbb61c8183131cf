#include "launch/data/training_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "launch/data/indexed/dataset_metadata.h"
#include "launch/data/loading/token_batches.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "tests/launch/data/test_files.h"
#include "tests/support/expect_error.h"
#include "tests/support/runs/small_runs.h"

namespace tessera {
namespace {

using test::expect_error;
using test::kSmallVocabulary;
using test::SmallKind;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class OpenData : public testing::Test {
 protected:
  OpenData() { test::write_small_data(folder_); }

  RunConfig config(SmallKind kind = SmallKind::gpt) const {
    RunConfig run = test::small_run(folder_, "run", kind);
    run.eval.batches = 1000;  // all of the held-out data
    return run;
  }

  /// Writes metadata which says that this tokenizer made folder/`name`.
  void write_metadata(const std::string& name, const TokenizerIdentity& identity) const {
    const IndexedDataset dataset(folder_ / name);
    DatasetMetadata metadata;
    metadata.tokenizer = identity;
    metadata.documents = dataset.num_documents();
    metadata.sequences = dataset.num_sequences();
    metadata.tokens = dataset.num_tokens();
    write_file(metadata_path(folder_ / name), metadata_text(metadata));
  }

  test::TestFolder folder_;
};

/// The tokens of all samples, as in epoch 0.
std::vector<int32_t> tokens_of(const Dataset& dataset) {
  std::vector<int32_t> tokens;
  Sample sample;
  for (int64_t i = 0; i < dataset.num_samples(); ++i) {
    dataset.fill(i, 0, sample);
    tokens.insert(tokens.end(), sample.tokens.begin(), sample.tokens.end());
  }
  return tokens;
}

/// Writes one document of consecutive tokens.
void write_numbers(const std::string& prefix, int32_t first, int32_t count) {
  std::vector<int32_t> document(static_cast<size_t>(count));
  std::iota(document.begin(), document.end(), first);
  write_dataset(prefix, {document});
}

TEST_F(OpenData, HoldsOutEndOfEachDataset) {
  write_numbers(folder_ / "a", 0, 1000);
  write_numbers(folder_ / "b", 1000, 500);
  RunConfig run = config();
  run.model.vocab_size = 2000;
  run.data.train = DataBlend({{folder_ / "a", 1.0}, {folder_ / "b", 1.0}});
  run.data.eval_fraction = 0.2;
  run.data.test_fraction = 0.1;
  const TrainingData data = open_training_data(run);
  const OpenedPart test = open_part(run, data.tokenizer, DataPart::test);
  const auto is_in = [](DataPart part, int32_t token) {
    const DataSplit split = split_data(token < 1000 ? 1000 : 500, 0.2, 0.1);
    return split.of(part).contains(token % 1000);
  };
  const auto expect_all_in = [&](const Dataset& samples, DataPart part) {
    const std::vector<int32_t> tokens = tokens_of(samples);
    EXPECT_TRUE(std::ranges::all_of(tokens, [&](int32_t token) { return is_in(part, token); }));
    const auto of_a = std::ranges::count_if(tokens, [](int32_t token) { return token < 1000; });
    EXPECT_NEAR(static_cast<double>(of_a) / static_cast<double>(tokens.size()), 0.5, 0.15);
  };
  expect_all_in(*data.train, DataPart::train);
  expect_all_in(*data.eval, DataPart::eval);
  expect_all_in(*test.samples, DataPart::test);
  EXPECT_EQ(data.train->num_samples(), 699 / 16 + 349 / 16);
  EXPECT_EQ(data.eval->num_samples(), 199 / 16 + 99 / 16);
  EXPECT_EQ(test.samples->num_samples(), 99 / 16 + 49 / 16);
}

TEST_F(OpenData, PartMatchesTrainingData) {
  for (const SmallKind kind : {SmallKind::gpt_packed, SmallKind::prompts, SmallKind::bert_blend,
                               SmallKind::bert_pairs, SmallKind::classifier}) {
    const RunConfig run = config(kind);
    const TrainingData data = open_training_data(run);
    const auto part = [&](DataPart which) {
      return tokens_of(*open_part(run, data.tokenizer, which).samples);
    };
    EXPECT_EQ(part(DataPart::eval), tokens_of(*data.eval)) << to_string(kind);
    // For evaluation, a blend is in natural order.
    if (data.train->has_order()) {
      EXPECT_NE(part(DataPart::train), tokens_of(*data.train));
    } else {
      EXPECT_EQ(part(DataPart::train), tokens_of(*data.train)) << to_string(kind);
    }
    expect_error([&] { part(DataPart::test); },
                 {"the run has no test data: data.test_fraction is 0"});
  }
  RunConfig run = config();
  run.data.eval_fraction = 0.0;
  expect_error([&] { open_part(run, make_tokenizer(run.data.tokenizer), DataPart::eval); },
               {"the run has no eval data: data.eval_fraction is 0"});
}

TEST_F(OpenData, BlendsLabeledTexts) {
  RunConfig run = config(SmallKind::classifier);
  const std::string lines = read_file(folder_ / "texts.tsv");
  write_file(folder_ / "more.tsv", lines);
  run.data.train = DataBlend({{folder_ / "texts.tsv", 3.0}, {folder_ / "more.tsv", 1.0}});
  const TrainingData data = open_training_data(run);
  EXPECT_EQ(data.train->num_samples(), 2 * 180);
  EXPECT_EQ(data.eval->num_samples(), 2 * 20);
}

TEST_F(OpenData, EveryBatchHasBlendShares) {
  write_numbers(folder_ / "a", 0, 1000);
  write_numbers(folder_ / "b", 1000, 200);
  RunConfig run = config();
  run.model.vocab_size = 2000;
  run.data.eval_fraction = 0.0;
  run.data.train = DataBlend({{folder_ / "a", 3.0}, {folder_ / "b", 1.0}});
  const TrainingData data = open_training_data(run);
  const TokenBatches batches(data.train, nullptr, 2000, 7, {8, 8, 0, 1});
  BatchBuffers buffers({8, run.model.seq_length});
  std::multiset<int32_t> seen_of_b;
  for (int64_t step = 0; step < 12; ++step) {
    const auto tokens = batches.load_train(8 * step, 0, buffers).tokens.span<int32_t>();
    for (size_t row = 0; row < 8; ++row) {
      const int32_t first = tokens[16 * row];
      if (first >= 1000) seen_of_b.insert(first);
    }
    EXPECT_EQ(seen_of_b.size(), static_cast<size_t>(2 * (step + 1)));
  }
  // 24 samples out of 12: each appears twice.
  for (const int32_t first : seen_of_b) EXPECT_EQ(seen_of_b.count(first), 2u);
}

TEST_F(OpenData, NotesReportEpochsOfEachPart) {
  RunConfig run = config(SmallKind::gpt_blend);  // 4000 and 2000 tokens, of which 10% are held out
  const std::vector<std::string> notes = open_training_data(run).notes;
  // 20 steps of 8 samples, in the ratio 1 to 2.
  EXPECT_THAT(notes, Contains((folder_ / "data") +
                              ": 224 samples, 33.33% of the run's samples; 0.2381 epochs in the "
                              "run"));
  EXPECT_THAT(notes, Contains((folder_ / "half") +
                              ": 112 samples, 66.67% of the run's samples; 0.9524 epochs in the "
                              "run"));
  run = config();
  EXPECT_THAT(open_training_data(run).notes,
              Contains((folder_ / "data") + ": 224 samples, 0.7143 epochs in the run"));
  const std::string unused = "data.eval_fraction is 0.1, but eval.interval is 0: that part of the";
  EXPECT_THAT(open_training_data(run).notes, Contains(HasSubstr(unused)));
  run.eval.interval = 5;
  EXPECT_THAT(open_training_data(run).notes, Not(Contains(HasSubstr(unused))));
}

/// The places of the samples of numbers: rows of 16.
std::vector<int64_t> places_of(const Dataset& samples) {
  std::vector<int64_t> places;
  Sample sample;
  for (int64_t i = 0; i < samples.num_samples(); ++i) {
    samples.fill(i, 0, sample);
    places.push_back(sample.tokens[0] / 16);
  }
  return places;
}

TEST_F(OpenData, EvaluationIsSpreadEvenlyOverTheHeldOutData) {
  write_numbers(folder_ / "a", 0, 16 * 100 + 1);
  write_numbers(folder_ / "b", 0, 16 * 30 + 1);
  RunConfig run = config();
  run.model.vocab_size = 2000;
  run.data.train = folder_ / "a";
  run.data.eval = folder_ / "a";
  run.data.eval_fraction = 0.0;
  run.eval.interval = 1;
  for (const int64_t batches : {1, 2, 5, 12}) {
    run.eval.batches = batches;
    const TrainingData data = open_training_data(run);
    const std::vector<int64_t> places = places_of(*data.eval);
    const int64_t count = batches * run.batch.global;  // one of each of as many parts
    ASSERT_EQ(std::ssize(places), count);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t place = places[static_cast<size_t>(i)];
      EXPECT_LE(i * 100 / count, place);
      EXPECT_LT(place, (i + 1) * 100 / count);
    }
    EXPECT_EQ(places_of(*open_training_data(run).eval), places) << "every time the same";
    EXPECT_THAT(data.notes, Contains(HasSubstr(fmt::format("{} of 13 batches", batches))));
  }
  run.eval.batches = 13;
  EXPECT_EQ(open_training_data(run).eval->num_samples(), 100);
  EXPECT_THAT(open_training_data(run).notes, Contains(HasSubstr("all 13 batches")));
}

TEST_F(OpenData, EvaluationIsSpreadOverEachDatasetOfABlend) {
  write_numbers(folder_ / "a", 0, 16 * 100 + 1);
  write_numbers(folder_ / "b", 0, 16 * 10 + 1);
  RunConfig run = config();
  run.model.vocab_size = 2000;
  run.data.eval_fraction = 0.0;
  run.data.eval = DataBlend({{folder_ / "a", 1.0}, {folder_ / "b", 1.0}});
  for (const int64_t batches : {3, 13, 100}) {
    run.eval.batches = batches;
    const TrainingData data = open_training_data(run);
    const std::vector<int64_t> places = places_of(*data.eval);
    EXPECT_EQ(std::ssize(places), std::min<int64_t>(110, 8 * batches));
    // Half of them are of a. The last part of it is there, however few are of it.
    const int64_t of_a = std::ssize(places) / 2;
    EXPECT_GE(*std::ranges::max_element(places), 100 - (100 + of_a - 1) / of_a);
  }
}

TEST_F(OpenData, NotesEvaluationOnTrainingData) {
  RunConfig run = config(SmallKind::gpt_blend);
  run.data.eval_fraction = 0.0;
  run.data.eval = folder_ / "half";
  const auto seen = HasSubstr((folder_ / "half") + ": is in both data.train and data.eval, so");
  EXPECT_THAT(open_training_data(run).notes, Contains(seen));
  run.data.train = folder_ / "data";
  EXPECT_THAT(open_training_data(run).notes, Not(Contains(seen)));
}

TEST_F(OpenData, NamesFractionOfTooSmallPart) {
  RunConfig run = config();
  run.data.test_fraction = 0.002;  // 8 tokens
  expect_error(
      [&] { open_training_data(run); },
      {"data.test_fraction is 0.002: ", "data: tokens [3992, 4000) are 8 tokens, but one"});
  run.data.test_fraction = 0.0;
  run.data.eval_fraction = 0.001;
  expect_error([&] { open_training_data(run); }, {"data.eval_fraction is 0.001: ", "are 4 tokens"});
}

TEST_F(OpenData, ChecksTokenizerAgainstMetadata) {
  for (const SmallKind kind : {SmallKind::gpt, SmallKind::gpt_blend, SmallKind::bert_packed}) {
    const RunConfig run = config(kind);
    const TokenizerIdentity identity = identity_of(*make_tokenizer(run.data.tokenizer));
    const auto unchecked = [&] {
      return HasSubstr("there is no " + (folder_ / "data.meta.json") +
                       ", so Tessera cannot check whether data.tokenizer");
    };
    std::filesystem::remove(metadata_path(folder_ / "data"));
    EXPECT_THAT(open_training_data(run).notes, Contains(unchecked()));
    write_metadata("data", identity);
    EXPECT_THAT(open_training_data(run).notes, Not(Contains(unchecked())));

    for (const TokenizerIdentity& other :
         {TokenizerIdentity{"byte", identity.vocab_size, identity.checksum},
          TokenizerIdentity{identity.kind, 52, identity.checksum},
          TokenizerIdentity{identity.kind, identity.vocab_size, "xxh3-64:0123456789abcdef"}}) {
      write_metadata("data", other);
      expect_error([&] { open_training_data(run); },
                   {(folder_ / "data.meta.json").c_str(), "says that its tokens were made by ",
                    to_string(other).c_str(), "but data.tokenizer, wordpiece:",
                    to_string(identity).c_str(), "prepare the text again with `tessera prepare "});
    }
  }
}

/// The run of a kind without a tokenizer.
RunConfig without_tokenizer(RunConfig run, const SpecialTokenIds& special = {}) {
  run.data.tokenizer = kNoTokenizer;
  run.data.special_tokens = special;
  return run;
}

const SpecialTokenIds kSpecial = {{"cls", 2}, {"sep", 3}, {"mask", 4}};

// The small vocabulary has [PAD], [UNK], [CLS], [SEP] and [MASK] first.
TEST_F(OpenData, IdsMakeSameSamplesAsTheirTokenizer) {
  SpecialTokenIds all = kSpecial;
  all["pad"] = 0;
  all["unk"] = 1;
  for (const SmallKind kind :
       {SmallKind::gpt, SmallKind::gpt_packed, SmallKind::bert_pairs, SmallKind::bert_blend}) {
    RunConfig run = config(kind);
    run.mlm.unit = MaskUnit::token;  // ids have no words
    run.mlm.max_span = MaskingOptions{}.max_span;
    const TrainingData with = open_training_data(run);
    const TrainingData without = open_training_data(without_tokenizer(run, all));
    EXPECT_EQ(tokens_of(*without.train), tokens_of(*with.train)) << to_string(kind);
    EXPECT_TRUE(is_none(*without.tokenizer));
    EXPECT_EQ(without.tokenizer->vocab_size(), run.model.vocab_size);
    EXPECT_EQ(tokens_of(*open_part(run, without.tokenizer, DataPart::eval).samples),
              tokens_of(*without.eval));
  }
}

TEST_F(OpenData, LabeledTextsMayBeIds) {
  write_file(folder_ / "texts.tsv", "text\tlabel\n7 8 9\t0\n10 11\t1\n12\t2\n13\t0\n");
  RunConfig run = without_tokenizer(config(SmallKind::classifier), {{"cls", 2}, {"sep", 3}});
  run.data.eval_fraction = 0.0;
  const std::vector<int32_t> tokens = tokens_of(*open_training_data(run).train);
  EXPECT_EQ(std::ranges::count(tokens, 2), 4);
  EXPECT_EQ(std::ranges::count(tokens, 3), 4);
  EXPECT_EQ(std::ranges::count(tokens, 12), 1);
  write_file(folder_ / "texts.tsv", "text\tlabel\n7 8 9\t0\n10 x\t1\n");
  expect_error([&] { open_training_data(run); },
               {"texts.tsv:3", "word 2 is \"x\", but must be an id from 0 to 52"});
}

TEST_F(OpenData, NamesMissingSpecialTokensOfIds) {
  const std::tuple<SmallKind, SpecialTokenIds, const char*> cases[] = {
      {SmallKind::bert_packed, {}, "needs the ids of cls, sep, mask"},
      {SmallKind::bert_packed, {{"cls", 2}, {"sep", 3}}, "needs the ids of mask"},
      {SmallKind::classifier, {{"cls", 2}}, "needs the ids of sep"}};
  for (const auto& [kind, special, fact] : cases) {
    const RunConfig run = without_tokenizer(config(kind), special);
    expect_error([&] { open_training_data(run); },
                 {"data.tokenizer is none", "data.special_tokens is {", fact,
                  "data.special_tokens={cls: 2, sep: 3, mask: 4}"});
  }
}

TEST_F(OpenData, UsesTokensOfATokenizerAsIdsOnlyIfAsked) {
  write_metadata("data", {"wordpiece", 53, "xxh3-64:0123456789abcdef"});
  const auto used_as_ids = HasSubstr(
      "data: its tokens were made by wordpiece with 53 tokens "
      "(xxh3-64:0123456789abcdef), and are used as ids, because");
  RunConfig run = without_tokenizer(config());
  EXPECT_THAT(open_training_data(run).notes, Contains(used_as_ids));
  const auto none = std::make_shared<const IdTokenizer>(kSmallVocabulary);
  EXPECT_THAT(open_part(run, none, DataPart::eval).notes, Contains(used_as_ids));
  run.data.tokenizer.clear();
  run.automatic = {"data.tokenizer"};
  expect_error([&] { open_training_data(run, none); },
               {"data.meta.json", "wordpiece with 53 tokens", "set data.tokenizer to none"});

  // Ids are not tokens of a tokenizer.
  write_metadata("data", {"none", 53, "xxh3-64:0123456789abcdef"});
  EXPECT_THAT(open_training_data(run, none).notes, Not(Contains(HasSubstr("used as ids"))));
  expect_error([&] { open_training_data(config()); },
               {"data.meta.json says that its tokens were made by none (ids 0 to 52), but "
                "data.tokenizer, wordpiece:"});
}

TEST_F(OpenData, ModelNeedsRowForEachId) {
  write_metadata("data", {"none", 100, "xxh3-64:0123456789abcdef"});
  expect_error([&] { open_training_data(without_tokenizer(config())); },
               {"data.meta.json", "ids 0 to 99", "model.vocab_size is 53: choose 100 or more"});
  RunConfig run = config();
  run.data.tokenizer.clear();
  run.automatic = {"data.tokenizer"};
  expect_error([&] { open_training_data(run, std::make_shared<const IdTokenizer>(100)); },
               {"model.vocab_size is 53, but data.tokenizer is auto (none), which has 100 tokens"});
}

TEST_F(OpenData, SentinelsFollowTheIdsOfTheData) {
  const SpecialTokenIds special = {{"eos", 7}};
  RunConfig run = without_tokenizer(config(SmallKind::span_corruption), special);
  EXPECT_EQ(open_training_data(run).tokenizer->vocab_size(), kSmallVocabulary);
  RunConfig small = run;
  small.model.vocab_size = small.span_corruption.sentinels;
  expect_error([&] { open_training_data(small); },
               {"model.vocab_size is 9, but span_corruption.sentinels is 9", "9 plus the number"});
  // Of a dataset, and of an imported model, which counts the sentinels as ids.
  run.data.tokenizer.clear();
  run.automatic = {"data.tokenizer"};
  for (const int64_t ids : {int64_t{kSmallVocabulary}, run.model.vocab_size}) {
    const auto kept = std::make_shared<const IdTokenizer>(ids, special);
    EXPECT_EQ(open_training_data(run, kept).tokenizer->vocab_size(), kSmallVocabulary);
    EXPECT_NO_THROW(open_part(run, kept, DataPart::eval));
  }
  write_metadata("data", {"none", 60, "xxh3-64:0123456789abcdef"});
  const auto many = std::make_shared<const IdTokenizer>(60, special);
  expect_error([&] { open_training_data(run, many); },
               {"data.meta.json", "ids 0 to 59",
                "model.vocab_size is 62 and span_corruption.sentinels is 9: choose 69 or more"});
}

TEST_F(OpenData, SpecialTokensReplaceThoseOfDataset) {
  RunConfig run = config();
  run.data.tokenizer.clear();
  run.automatic = {"data.tokenizer"};
  const auto kept =
      std::make_shared<const IdTokenizer>(kSmallVocabulary, SpecialTokenIds{{"eos", 7}});
  EXPECT_EQ(open_training_data(run, kept).tokenizer->end_of_document(), 7);
  run.data.special_tokens = {{"eos", 8}};
  EXPECT_EQ(open_training_data(run, kept).tokenizer->end_of_document(), 8);
  expect_error([&] { open_training_data(run, make_tokenizer("byte")); },
               {"data.special_tokens is {eos: 8}, but data.tokenizer is auto (byte)"});
}

TEST_F(OpenData, PacksPromptsAndNotesWhatIsLearned) {
  const TrainingData data = open_training_data(config(SmallKind::prompts));
  EXPECT_THAT(data.notes, Contains(testing::ContainsRegex(
                              "prompts.tsv: [0-9]+ examples of [0-9,]+ tokens, of which the model "
                              "learns [0-9,]+$")));
  EXPECT_THAT(data.notes, Contains(HasSubstr("examples were truncated to 17 tokens")));
  EXPECT_THAT(data.notes, Contains(HasSubstr("examples are left out, because nothing")));
  Sample sample;
  data.train->fill(0, 0, sample);
  EXPECT_GT(sample.document_lengths.size(), 0u);
}

TEST_F(OpenData, BlendsPromptsWithADataset) {
  write_metadata("data", {"none", 53, "xxh3-64:0123456789abcdef"});
  RunConfig run = config(SmallKind::prompts);
  run.data.train = DataBlend({{folder_ / "prompts.tsv", 1.0}, {folder_ / "data", 1.0}});
  const TrainingData data = open_training_data(run);
  EXPECT_EQ(data.train_parts.size(), 2u);
  EXPECT_EQ(data.train->seq_length(), 16);
}

TEST_F(OpenData, PromptsForEvaluationDoNotChangeHowTrainingPacks) {
  write_metadata("data", {"none", 53, "xxh3-64:0123456789abcdef"});
  RunConfig run = config(SmallKind::prompts);
  run.data.train = DataBlend({{folder_ / "data", 1.0}});
  run.data.eval = DataBlend({{folder_ / "prompts.tsv", 1.0}});
  run.data.eval_fraction = 0.0;
  run.data.packing = Packing::concatenate;
  EXPECT_GT(open_training_data(run).eval->num_samples(), 0);
}

TEST_F(OpenData, RefusesKeysThatDoNotFitPrompts) {
  const auto error_with = [&](SmallKind kind, const auto& change) {
    RunConfig run = config(kind);
    change(run);
    return test::error_of([&] { open_training_data(run); });
  };
  EXPECT_THAT(error_with(SmallKind::prompts, [](RunConfig& run) { run.data.packing = {}; }),
              HasSubstr("data.packing is concatenate, but " + (folder_ / "prompts.tsv")));
  EXPECT_THAT(error_with(SmallKind::prompts,
                         [](RunConfig& run) { run.data.chat_template = ChatFormat::plain; }),
              HasSubstr("data.chat_template is set, but " + (folder_ / "prompts.tsv")));
  EXPECT_THAT(error_with(SmallKind::prompts, [](RunConfig& run) { run.data.truncate = false; }),
              HasSubstr("data.truncate=true"));
  EXPECT_THAT(error_with(SmallKind::prompts, [](RunConfig& run) { run.data.special_tokens = {}; }),
              HasSubstr("tokenizer none has no end-of-document token"));
  const auto is_dataset = [](const char* key) {
    return testing::AllOf(HasSubstr(std::string(key) + " is set, but "),
                          HasSubstr("is a prepared dataset"));
  };
  EXPECT_THAT(error_with(SmallKind::gpt, [](RunConfig& run) { run.data.truncate = true; }),
              is_dataset("data.truncate"));
  EXPECT_THAT(error_with(SmallKind::gpt, [](RunConfig& run) { run.data.loss_on_prompts = true; }),
              is_dataset("data.loss_on_prompts"));
  EXPECT_THAT(error_with(SmallKind::gpt,
                         [](RunConfig& run) { run.data.chat_template = ChatFormat::chatml; }),
              is_dataset("data.chat_template"));
}

TEST_F(OpenData, RejectsMetadataOfDifferentDataset) {
  write_metadata("half", identity_of(*make_tokenizer(config().data.tokenizer)));
  std::filesystem::rename(metadata_path(folder_ / "half"), metadata_path(folder_ / "data"));
  expect_error([&] { open_training_data(config()); },
               {"data.meta.json says ", "it belongs to another dataset"});
}

}  // namespace
}  // namespace tessera
