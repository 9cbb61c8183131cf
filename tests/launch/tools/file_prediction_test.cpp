#include "launch/tools/predict/file_prediction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <sstream>

#include "launch/data/datasets/line_reader.h"
#include "launch/support/text/json.h"
#include "launch/tokenizers/byte_tokenizer.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "launch/tools/generate/continuation_prediction.h"
#include "launch/tools/predict/predict.h"
#include "launch/tools/predict/text_sample.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "parallel/process_grid.h"
#include "tests/launch/data/test_files.h"
#include "tests/support/expect_error.h"
#include "tests/support/runs/small_runs.h"
#include "tests/support/runs/training_world.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::SmallKind;
using test::train_checkpoint;

/// fp32 sums in a different order, once per layer, of logits of about 1.
constexpr double kTolerance = 1e-5;

class FilePredictions : public testing::Test {
 protected:
  FilePredictions() { test::write_small_data(folder_); }

  RunConfig config(SmallKind kind) const { return test::small_run(folder_, to_string(kind), kind); }

  using Open = std::function<std::unique_ptr<const FilePrediction>(const ModelConfig& model)>;

  /// The output of a model on `tensor` × `data` ranks that is asked about `rows` texts at once.
  std::string predict_bytes(const fs::path& checkpoint, int tensor, int data, int64_t rows,
                            const Open& open) const {
    const std::string output = folder_ / "output";
    run_thread_ranks(tensor * data, [&](Communicator& world) {
      const ParallelGroups groups = make_parallel_groups(world, {.tensor = tensor});
      Checkpoint opened = Checkpoint::open(checkpoint);
      TextModel model(opened, *groups.tp, kCpu, rows);
      predict_file(*open(model.config()), model, output, {world, *groups.dp}, Replace::overwrite);
    });
    return read_file(output);
  }

  /// Its lines, with one data rank.
  std::vector<std::string> predict(const fs::path& checkpoint, int tensor, int64_t rows,
                                   const Open& open) const {
    std::istringstream text(predict_bytes(checkpoint, tensor, 1, rows, open));
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }

  FilePredictionOptions input(const std::string& name, const std::string& text,
                              PredictionFormat format) const {
    write_file(folder_ / name, text);
    FilePredictionOptions options;
    options.input = folder_ / name;
    options.format = format;
    return options;
  }

  test::TestFolder folder_;
};

TEST_F(FilePredictions, LabelsDoNotDependOnLayoutOrBatch) {
  const auto tokenizer = make_tokenizer(config(SmallKind::classifier).data.tokenizer);
  const std::vector<std::string> names = {"x", "y", "z"};
  RunConfig number = config(SmallKind::multi_label);
  number.run.dir = folder_ / "number";
  number.model.problem_type = ProblemType::regression;
  number.model.num_labels = 1;
  number.data.train = DataBlend(folder_ / "numbers.tsv");
  write_file(folder_ / "numbers.tsv",
             "text\tlabel\nw0\t1\nw3\t2\nw6\t0.5\nw9\t0\nw0 w3\t3\nw3 w3\t1\nw0\t2\nw9\t1\n"
             "w6\t1\nw0 w9\t1\n");
  const std::string texts = "w0 w3\nw6\nw9 w9 w0 w3 w6\nw3\nw12 w0\n";
  for (const RunConfig& run :
       {config(SmallKind::classifier), config(SmallKind::multi_label), number}) {
    SCOPED_TRACE(run.run.dir);
    const fs::path checkpoint = train_checkpoint(run);
    const auto json = input("texts.txt", texts, PredictionFormat::jsonl);
    const auto open = [&](const ModelConfig& model) {
      return label_prediction(model, *tokenizer, names, json);
    };
    const std::vector<std::string> whole = predict(checkpoint, 1, 1, open);
    ASSERT_EQ(whole.size(), 5u);
    for (const auto& [ranks, rows] : {std::pair(1, 2), std::pair(2, 3), std::pair(4, 8)}) {
      const std::vector<std::string> found = predict(checkpoint, ranks, rows, open);
      ASSERT_EQ(found.size(), whole.size());
      for (size_t i = 0; i < whole.size(); ++i) {
        const Json a = Json::parse(found[i]), b = Json::parse(whole[i]);
        if (run.model.problem_type == ProblemType::regression) {
          EXPECT_NEAR(a.at("score").get<double>(), b.at("score").get<double>(), kTolerance);
          continue;
        }
        for (const std::string& name : names) {
          EXPECT_NEAR(a.at("probabilities").at(name).get<double>(),
                      b.at("probabilities").at(name).get<double>(), kTolerance);
        }
      }
    }
    // Labels in the input are not read, and columns say the same as JSON.
    const auto columns = input("texts.tsv", "label\ttext\n?\tw0 w3\n\tw6\n", PredictionFormat::tsv);
    const std::vector<std::string> table = predict(checkpoint, 1, 8, [&](const ModelConfig& model) {
      return label_prediction(model, *tokenizer, names, columns);
    });
    ASSERT_EQ(table.size(), 3u);
    const Json first = Json::parse(whole[0]);
    const std::vector<std::string_view> row = split(table[1], '\t');
    EXPECT_EQ(row[0], "2");
    EXPECT_EQ(row[1], first.at("text"));
    EXPECT_EQ(first.at("line"), 1);
    const std::string column(row[2]);
    switch (run.model.problem_type) {
      case ProblemType::single_label_classification:
        EXPECT_EQ(table[0], "line\ttext\tlabel\tprobability");
        EXPECT_EQ(column, first.at("label"));
        break;
      case ProblemType::multi_label_classification:
        EXPECT_EQ(table[0], "line\ttext\tlabels\tprobabilities");
        EXPECT_EQ(column.empty() ? 0 : split(column, '|').size(), first.at("labels").size());
        break;
      case ProblemType::regression:
        EXPECT_EQ(table[0], "line\ttext\tscore");
        EXPECT_NEAR(std::stod(column), first.at("score").get<double>(), kTolerance);
        break;
    }
  }
}

TEST_F(FilePredictions, LabelsEachWord) {
  const RunConfig run = config(SmallKind::words);
  const fs::path checkpoint = train_checkpoint(run);
  const auto tokenizer = make_tokenizer(run.data.tokenizer);
  const std::vector<std::string> names = {"O", "B-X", "I-X", "B-Y"};
  const auto json =
      input("sentences.txt", "w0 w3w2  w6\nw9\nw12w5w8 w0\n", PredictionFormat::jsonl);
  const auto columns =
      input("sentences.tsv", "w0\tO\nw3w2\nw6\n\n\nw9\tB-X\n-DOCSTART-\tO\nw12w5w8\nw0\n",
            PredictionFormat::tsv);
  const auto lines = predict(checkpoint, 2, 2, [&](const ModelConfig& model) {
    return word_prediction(model, *tokenizer, names, json);
  });
  ASSERT_EQ(lines.size(), 3u);
  std::vector<std::string> expected;
  for (const std::string& line : lines) {
    const Json sentence = Json::parse(line);
    ASSERT_EQ(sentence.at("tags").size(), sentence.at("tokens").size());
    for (size_t i = 0; i < sentence.at("tags").size(); ++i) {
      expected.push_back(sentence.at("tokens")[i].get<std::string>() + "\t" +
                         sentence.at("tags")[i].get<std::string>());
    }
    expected.emplace_back();
  }
  EXPECT_EQ(expected[1].substr(0, 5), "w3w2\t");
  EXPECT_EQ(predict(checkpoint, 1, 8,
                    [&](const ModelConfig& model) {
                      return word_prediction(model, *tokenizer, names, columns);
                    }),
            expected);
  auto truncated = json;
  truncated.truncate = true;
  expect_error([&] { word_prediction(run.model, *tokenizer, names, truncated); },
               {"--truncate does not apply to words"});
}

TEST_F(FilePredictions, FillsMasksOfAFile) {
  const RunConfig run = config(SmallKind::bert_packed);
  const fs::path checkpoint = train_checkpoint(run);
  const auto tokenizer = make_tokenizer(run.data.tokenizer);
  auto json = input("masked.txt", "w0 [MASK]\n[MASK] w3 [MASK]\n", PredictionFormat::jsonl);
  json.top = 2;
  const auto lines = predict(checkpoint, 2, 8, [&](const ModelConfig& model) {
    return mask_prediction(model, *tokenizer, json);
  });
  ASSERT_EQ(lines.size(), 2u);
  auto columns = json;
  columns.format = PredictionFormat::tsv;
  const auto table = predict(checkpoint, 1, 1, [&](const ModelConfig& model) {
    return mask_prediction(model, *tokenizer, columns);
  });
  ASSERT_EQ(table.size(), 1u + 3 * 2);
  EXPECT_EQ(table[0], "line\ttext\tmask\ttoken\tprobability");
  size_t row = 1;
  for (size_t i = 0; i < lines.size(); ++i) {
    const Json text = Json::parse(lines[i]);
    ASSERT_EQ(text.at("masks").size(), i + 1);
    for (size_t mask = 0; mask <= i; ++mask) {
      for (const Json& candidate : text.at("masks")[mask]) {
        const auto fields = split(table[row++], '\t');
        EXPECT_EQ(fields[0], std::to_string(i + 1));
        EXPECT_EQ(fields[2], std::to_string(mask + 1));
        EXPECT_EQ(fields[3], candidate.at("token").get<std::string>());
        EXPECT_NEAR(std::stod(std::string(fields[4])), candidate.at("probability").get<double>(),
                    kTolerance);
      }
    }
  }
}

TEST_F(FilePredictions, EmbeddingsDoNotDependOnLayoutOrBatch) {
  const auto tokenizer = make_tokenizer(config(SmallKind::embeddings).data.tokenizer);
  const std::string texts = "w0 w3\nw6\nw9 w9 w0 w3 w6\nw3\nw12 w0\n";
  for (const SmallKind kind : {SmallKind::embeddings, SmallKind::embeddings_cls}) {
    const fs::path checkpoint = train_checkpoint(config(kind));
    const auto open = [&](PredictionFormat format) {
      // The file is written once: ranks read it at the same time.
      return [&tokenizer, options = input("texts.txt", texts, format)](const ModelConfig& model) {
        return embedding_prediction(model, *tokenizer, options);
      };
    };
    const auto whole = predict(checkpoint, 1, 1, open(PredictionFormat::jsonl));
    ASSERT_EQ(whole.size(), 5u);
    for (const auto& [tensor, rows] : {std::pair(1, 2), std::pair(2, 3), std::pair(4, 8)}) {
      const auto found = predict(checkpoint, tensor, rows, open(PredictionFormat::jsonl));
      ASSERT_EQ(found.size(), whole.size());
      for (size_t i = 0; i < whole.size(); ++i) {
        const auto a = Json::parse(found[i]).at("embedding").get<std::vector<double>>();
        const auto b = Json::parse(whole[i]).at("embedding").get<std::vector<double>>();
        ASSERT_EQ(a.size(), 32u);
        double squares = 0.0;
        for (size_t c = 0; c < a.size(); ++c) {
          EXPECT_NEAR(a[c], b[c], kTolerance);
          squares += a[c] * a[c];
        }
        EXPECT_NEAR(squares, 1.0, kTolerance);
      }
    }
    // NumPy's format: a header of a multiple of 64 bytes, then the numbers.
    const std::string array = predict_bytes(checkpoint, 1, 1, 1, open(PredictionFormat::npy));
    const size_t numbers = 5 * 32 * sizeof(float), header = array.size() - numbers;
    EXPECT_EQ(header % 64, 0u);
    EXPECT_EQ(array.substr(1, 5), "NUMPY");
    EXPECT_NE(array.find("'descr': '<f4', 'fortran_order': False, 'shape': (5, 32)"),
              std::string::npos);
    EXPECT_EQ(array[header - 1], '\n');
    float first = 0.0f;
    std::memcpy(&first, &array[header], sizeof first);
    EXPECT_EQ(first, Json::parse(whole[0]).at("embedding")[0].get<float>());
  }
}

TEST_F(FilePredictions, HaveSameBytesForAnyNumberOfDataRanks) {
  const auto tokenizer = make_tokenizer(config(SmallKind::classifier).data.tokenizer);
  std::string texts, masks;
  for (int line = 0; line < 11; ++line) {
    const std::string words = fmt::format("w{} w{}", 3 * (line % 4), 3 * (line % 3));
    texts += words + '\n';
    masks += words + " [MASK]\n";
  }
  // The files are written once: ranks read them at the same time.
  const auto lines = input("texts.txt", texts, PredictionFormat::jsonl);
  const auto masked = input("masks.txt", masks, PredictionFormat::jsonl);
  auto vectors = lines;
  vectors.format = PredictionFormat::npy;
  const ContinuationOptions sampled = {{.seed = 5}, {{}, 9}};
  const auto prompts =
      input("prompts.txt", "w3 w6 w9 w0\nw6\nw9\nw3 w3 w6 w3 w0 w6 w3\nw0 w3 w0 w6 w6\n",
            PredictionFormat::tsv);
  const struct {
    SmallKind kind;
    Open open;
  } commands[] = {
      {SmallKind::gpt,
       [&](const ModelConfig& model) {
         return continuation_prediction(model, *tokenizer, sampled, prompts);
       }},
      {SmallKind::classifier,
       [&](const ModelConfig& model) { return label_prediction(model, *tokenizer, {}, lines); }},
      {SmallKind::words,
       [&](const ModelConfig& model) { return word_prediction(model, *tokenizer, {}, lines); }},
      {SmallKind::bert_packed,
       [&](const ModelConfig& model) { return mask_prediction(model, *tokenizer, masked); }},
      {SmallKind::embeddings,
       [&](const ModelConfig& model) { return embedding_prediction(model, *tokenizer, vectors); }}};
  for (const auto& [kind, open] : commands) {
    SCOPED_TRACE(to_string(kind));
    const fs::path checkpoint = train_checkpoint(config(kind));
    for (const int tensor : {1, 2}) {
      const std::string whole = predict_bytes(checkpoint, tensor, 1, 2, open);
      for (const int data : {2, 3, 4}) {
        EXPECT_EQ(predict_bytes(checkpoint, tensor, data, 2, open), whole);
      }
    }
  }
}

TEST_F(FilePredictions, ContinuationsAreInOrderAndDoNotDependOnTheBatch) {
  const fs::path checkpoint = train_checkpoint(config(SmallKind::gpt));
  const auto tokenizer = make_tokenizer(config(SmallKind::classifier).data.tokenizer);
  const ContinuationOptions greedy = {{.temperature = 0.0}, {{}, 21}};
  const ContinuationOptions sampled = {{.repetition_penalty = 1.2, .seed = 3, .vocab_size = 53},
                                       {{}, 21, StopStrings({"w7", "w1"})}};
  // As long as the context of 16 tokens, and equal ones: only sampling tells them apart.
  const std::vector<std::string> prompts = {
      "w3 w6 w9", "w3",      "w0 w3 w0 w3 w0 w3 w0 w3 w0 w3 w0 w3 w0 w3 w0 w3",
      "w9 w6",    "w3",      "w6 w6 w6 w6 w6 w6 w6 w6 w6 w6 w6 w6",
      "w3 w6 w9", "w0 w9 w0"};
  std::string lines, columns = "prompt\n", objects;
  for (const std::string& prompt : prompts) {
    lines += prompt + '\n';
    columns += prompt + '\n';
    objects += Json{{"prompt", prompt}}.dump() + '\n';
  }
  const auto prompts_in = [&](const char* name, const std::string& content) {
    return input(name, content, PredictionFormat::jsonl);
  };
  const auto text = prompts_in("texts.txt", lines);
  const FilePredictionOptions same[] = {prompts_in("texts.tsv", columns),
                                        prompts_in("texts.jsonl", objects)};
  for (const ContinuationOptions& how : {greedy, sampled}) {
    const auto predict_for = [&](const FilePredictionOptions& file, int tensor, int64_t rows) {
      return predict(checkpoint, tensor, rows, [&](const ModelConfig& model) {
        return continuation_prediction(model, *tokenizer, how, file);
      });
    };
    const std::vector<std::string> whole = predict_for(text, 1, 1);
    ASSERT_EQ(whole.size(), prompts.size());
    EXPECT_EQ(whole[1] == whole[4], how.sampling.temperature == 0.0);
    for (const auto& [tensor, rows] : {std::pair(1, 3), std::pair(2, 1), std::pair(2, 8)}) {
      EXPECT_EQ(predict_for(text, tensor, rows), whole) << rows;
    }
    for (const FilePredictionOptions& file : same) EXPECT_EQ(predict_for(file, 1, 8), whole);
    // Other prompts change nothing.
    const auto first = prompts_in("first.txt", prompts[0] + '\n' + prompts[1] + '\n');
    EXPECT_EQ(predict_for(first, 1, 2), std::vector(whole.begin(), whole.begin() + 2));

    auto table = text;
    table.format = PredictionFormat::tsv;
    const std::vector<std::string> rows = predict_for(table, 1, 4);
    ASSERT_EQ(rows.size(), whole.size() + 1);
    EXPECT_EQ(rows[0], "generated_text");
    for (size_t i = 0; i < whole.size(); ++i) {
      const std::string generated = Json::parse(whole[i]).at("generated_text");
      EXPECT_EQ(rows[i + 1], generated);
      EXPECT_FALSE(how.ends.stops.occur_in(generated));
    }
  }
}

TEST_F(FilePredictions, RefusesPromptsByLine) {
  const ModelConfig gpt = config(SmallKind::gpt).model;
  const auto tokenizer = make_tokenizer(config(SmallKind::classifier).data.tokenizer);
  const IdTokenizer ids(gpt.vocab_size);
  ModelConfig prefix = gpt;
  prefix.attention_prefix = 3;
  const struct {
    const ModelConfig& model;
    const Tokenizer& tokenizer;
    const char* name;
    const char* text;
    std::initializer_list<const char*> facts;
  } cases[] = {
      {gpt, *tokenizer, "p.txt", "w0\n\n", {"p.txt:2", "empty"}},
      {gpt, *tokenizer, "p.txt", "", {"p.txt: there is no prompt"}},
      {gpt, *tokenizer, "p.jsonl", "{\"prompt\": \"\"}\n", {"p.jsonl:1 is empty", "no end-of-doc"}},
      {gpt,
       *tokenizer,
       "p.jsonl",
       "{\"text\": \"w0\"}\n",
       {"p.jsonl:1", "\"text\"", "no field \"prompt\""}},
      {gpt, *tokenizer, "p.tsv", "source\nw0\n", {"p.tsv:1", "\"source\"", "prompt"}},
      {gpt, ids, "p.txt", "1 2\n3 53\n", {"p.txt:2: word 2 is \"53\"", "0 to 52"}},
      {prefix, *tokenizer, "p.txt", "w0 w3 w6\nw0\n", {"p.txt:2", "has 1 tokens", "at least 3"}},
      {gpt,
       *tokenizer,
       "p.txt",
       "w0 w0 w0 w0 w0 w0 w0 w0 w0 w0 w0 w0 w0 w0 w0 w0 w0\n",
       {"p.txt:1: the prompt has 17 tokens, but the model sees 16", "--truncate"}},
      {gpt, *tokenizer, "p.csv", "w0\n", {"p.csv:1", "no column \"prompt\""}},
  };
  for (const auto& [model, with, name, text, facts] : cases) {
    SCOPED_TRACE(text);
    const auto file = input(name, text, PredictionFormat::tsv);
    expect_error([&] { continuation_prediction(model, with, {}, file); }, facts);
  }
}

TEST_F(FilePredictions, ConversationsAreMessages) {
  const fs::path checkpoint = train_checkpoint(config(SmallKind::gpt));
  const ByteTokenizer bytes;
  ContinuationOptions chat = {{.temperature = 0.0}, {{}, 5}};
  chat.chat = Chat{ChatTemplate(std::make_shared<const ChatForm>(plain_form()), bytes)};
  const auto prompts = [&](const ModelConfig& model, const ContinuationOptions& how,
                           const std::string& name, const std::string& text) {
    ModelConfig wide = model;
    wide.vocab_size = 257;
    return continuation_prediction(wide, bytes, how, input(name, text, PredictionFormat::jsonl));
  };
  const ModelConfig model = config(SmallKind::gpt).model;
  const std::string message = R"([{"role": "user", "content": "hi"}])";
  const std::string own =
      R"([{"role": "system", "content": "s"}, {"role": "user", "content": "a"}])";
  ContinuationOptions with_system = chat;
  with_system.chat->system = "s";
  expect_error([&] { prompts(model, {}, "p.jsonl", "{\"prompt\": " + message + "}\n"); },
               {"p.jsonl:1: the prompt is a list of messages", "--chat auto"});
  expect_error([&] { prompts(model, with_system, "p.jsonl", "{\"prompt\": " + own + "}\n"); },
               {"p.jsonl:1: the conversation has a system message", "--system"});
  // A text and a list of one message are the same; the model sees 16 tokens.
  for (const auto& [name, text] : {std::pair("p.jsonl", "{\"prompt\": " + message + "}\n"),
                                   std::pair("p.txt", std::string("hi\n"))}) {
    expect_error([&] { prompts(model, chat, name, text); },
                 {name, ":1: the prompt has 20 tokens, but the model sees 16"});
  }
}

TEST_F(FilePredictions, NamesLineAndLeavesNoOutput) {
  const RunConfig run = config(SmallKind::classifier);
  const auto tokenizer = make_tokenizer(run.data.tokenizer);
  const auto labels = [&](const std::string& name, const std::string& text, bool truncate = false) {
    auto options = input(name, text, PredictionFormat::tsv);
    options.truncate = truncate;
    return label_prediction(run.model, *tokenizer, {}, options)->size();
  };
  std::string longer;
  for (int i = 0; i < 20; ++i) longer += "w0 ";
  expect_error([&] { labels("a.txt", "w0\n" + longer + "\n"); }, {"a.txt:2", "22 tokens", "16"});
  EXPECT_EQ(labels("a.txt", "w0\n" + longer + "\n", true), 2);
  expect_error([&] { labels("a.txt", "w0\n\nw3\n"); }, {"a.txt:2", "empty"});
  expect_error([&] { labels("a.tsv", "label\nx\n"); }, {"a.tsv:1", "no column \"text\""});
  EXPECT_EQ(labels("a.csv", "id,text\n7,\"w0\nw3\"\n"), 1);
  // Files for training an embedding.
  const std::pair<const char*, const char*> tuples[] = {
      {"a.tsv", "anchor\tpositive\nw0\tw3\n"},
      {"a.jsonl", "{\"anchor\": \"w0\", \"positive\": \"w3\"}\n"}};
  for (const auto& [name, text] : tuples) {
    const std::string error = test::error_of([&, n = name, t = text] { labels(n, t); });
    EXPECT_THAT(error, testing::AllOf(testing::HasSubstr("\"anchor\""),
                                      testing::HasSubstr("--columns text=NAME"),
                                      testing::Not(testing::HasSubstr("model.head"))));
  }
  expect_error([&] { labels("a.jsonl", "{\"label\": 1}\n"); }, {"a.jsonl:1", "no field \"text\""});
  expect_error([&] { labels("a.dat", "text\n"); }, {"a.dat", ".csv or .tsv"});
  const RunConfig masked = config(SmallKind::bert_packed);
  const auto options = input("m.txt", "w0 [MASK]\nw3\n", PredictionFormat::tsv);
  expect_error([&] { mask_prediction(masked.model, *tokenizer, options); },
               {"m.txt:2", "\"w3\" has no mask", "[MASK]"});
  const auto embeddings = input("p.tsv", "text\ttext_pair\nw0\tw3\n", PredictionFormat::jsonl);
  expect_error([&] { embedding_prediction(masked.model, *tokenizer, embeddings); },
               {"p.tsv:2", "text_pair", "one text"});
  expect_error([] { prediction_format("out.npy", false); }, {"out.npy", ".tsv, .csv or .jsonl"});
  expect_error([] { prediction_format("out.tsv", true); }, {"out.tsv", ".jsonl or .npy"});

  // All ranks end, and an earlier output stays.
  const fs::path checkpoint = train_checkpoint(config(SmallKind::gpt));
  write_file(folder_ / "output", "earlier\n");
  const auto two = input("a.txt", "w0\nw3\n", PredictionFormat::tsv);
  expect_error(
      [&] {
        predict(checkpoint, 2, 2, [&](const ModelConfig&) {
          return label_prediction(run.model, *tokenizer, {}, two);
        });
      },
      {"that this command cannot use"});
  EXPECT_EQ(read_file(folder_ / "output"), "earlier\n");
}

}  // namespace
}  // namespace tessera
