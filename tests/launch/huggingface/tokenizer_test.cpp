#include <gtest/gtest.h>

#include "launch/huggingface/export/export_tokenizer.h"
#include "launch/huggingface/import/folder_tokenizer.h"
#include "launch/huggingface/import/import_tokenizer.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "tests/launch/huggingface/fixture.h"

namespace tessera {
namespace {

using namespace testing_interop;

class HuggingFaceTokenizer : public HuggingFaceFolder {
 protected:
  ExportedTokenizer files_of(const std::string& spec, const ModelConfig& model) const {
    return export_tokenizer(*make_tokenizer(spec), model);
  }

  static Json json_of(const ExportedTokenizer& exported, const std::string& name) {
    return parse_json(exported.files.at(name), name);
  }

  /// A folder with these files.
  fs::path folder_with(const std::map<std::string, std::string>& files) {
    const fs::path folder = folder_.path() / fmt::format("folder{}", ++folders_);
    fs::create_directory(folder);
    for (const auto& [name, text] : files) write_file(folder / name, text);
    return folder;
  }

  int folders_ = 0;
};

TEST_F(HuggingFaceTokenizer, ExportsBytesWithoutMerges) {
  ModelConfig model = small_gpt();
  model.vocab_size = 257;
  const ExportedTokenizer exported = files_of("byte", model);
  const Json vocabulary = json_of(exported, "vocab.json");
  EXPECT_EQ(vocabulary.size(), 257u);
  EXPECT_EQ(vocabulary.at("a"), 'a');
  EXPECT_EQ(vocabulary.at("Ġ"), ' ');
  EXPECT_EQ(vocabulary.at("Ċ"), '\n');
  EXPECT_EQ(vocabulary.at("ÿ"), 0xff);
  EXPECT_EQ(vocabulary.at("<|endoftext|>"), 256);
  EXPECT_EQ(exported.files.at("merges.txt"), "#version: 0.2\n");
  const Json whole = json_of(exported, "tokenizer.json");
  EXPECT_EQ(whole.at("model").at("vocab"), vocabulary);
  EXPECT_EQ(whole.at("added_tokens").at(0).at("id"), 256);
  EXPECT_EQ(json_of(exported, "tokenizer_config.json").at("tokenizer_class"), "GPT2Tokenizer");
  EXPECT_EQ(exported.ids.at("eos_token_id"), 256);
  EXPECT_TRUE(exported.ids.at("pad_token_id").is_null());
}

TEST_F(HuggingFaceTokenizer, WordPieceAddsSpecialTokensOnlyForBert) {
  const ExportedTokenizer bert = files_of(wordpiece(), small_masked_lm());
  EXPECT_EQ(bert.files.at("vocab.txt"), read_file(folder_ / "vocab.txt"));
  const Json config = json_of(bert, "tokenizer_config.json");
  EXPECT_EQ(config.at("tokenizer_class"), "BertTokenizer");
  EXPECT_EQ(config.at("do_lower_case"), true);
  EXPECT_EQ(config.at("model_max_length"), 10);
  EXPECT_EQ(json_of(bert, "tokenizer.json").at("post_processor").at("type"), "TemplateProcessing");
  const ExportedTokenizer cased =
      files_of("wordpiece-cased:" + (folder_ / "vocab.txt"), small_masked_lm());
  EXPECT_EQ(json_of(cased, "tokenizer_config.json").at("do_lower_case"), false);
  EXPECT_EQ(json_of(cased, "tokenizer.json").at("normalizer").at("lowercase"), false);

  const ExportedTokenizer gpt = files_of(wordpiece(), small_gpt());
  EXPECT_TRUE(json_of(gpt, "tokenizer.json").at("post_processor").is_null());
  EXPECT_NE(json_of(gpt, "tokenizer_config.json").at("tokenizer_class"), "BertTokenizer");

  // BertTokenizer would add the special tokens that a vocabulary lacks.
  write_file(folder_ / "few.txt", "[UNK]\na\n");
  const ExportedTokenizer few = files_of("wordpiece:" + (folder_ / "few.txt"), small_masked_lm());
  EXPECT_EQ(json_of(few, "tokenizer_config.json").count("mask_token"), 0u);
  EXPECT_NE(json_of(few, "tokenizer_config.json").at("tokenizer_class"), "BertTokenizer");
  expect_error([&] { files_of("byte", small_gpt()); },
               {"the tokenizer has 257 tokens, but model.vocab_size is 56"});
}

TEST_F(HuggingFaceTokenizer, DetectsWordPieceCasing) {
  const std::string vocabulary = read_file(folder_ / "vocab.txt");
  EXPECT_EQ(import_tokenizer(folder_with({{"vocab.txt", vocabulary}}), {}).tokenizer->kind(),
            "wordpiece");
  const auto kind_with = [&](const std::string& config) {
    const ImportedTokenizer imported = import_tokenizer(
        folder_with({{"vocab.txt", vocabulary}, {"tokenizer_config.json", config}}), {});
    return std::string(imported.tokenizer->kind());
  };
  EXPECT_EQ(kind_with("{}"), "wordpiece");
  EXPECT_EQ(kind_with(R"({"do_lower_case": null})"), "wordpiece");
  EXPECT_EQ(kind_with(R"({"do_lower_case": true})"), "wordpiece");
  EXPECT_EQ(kind_with(R"({"do_lower_case": false})"), "wordpiece-cased");
  expect_error([&] { kind_with(R"({"do_lower_case": 1})"); }, {"\"do_lower_case\" must be true"});
  expect_error([&] { kind_with("["); }, {"tokenizer_config.json is not valid JSON"});
}

TEST_F(HuggingFaceTokenizer, RejectsUnsupportedSettings) {
  const std::string vocabulary = read_file(folder_ / "vocab.txt");
  const auto words = [&](const std::string& config, const std::string& added = "{}") {
    return folder_tokenizer(folder_with({{"vocab.txt", vocabulary},
                                         {"tokenizer_config.json", config},
                                         {"added_tokens.json", added}}));
  };
  EXPECT_TRUE(words(R"({"strip_accents": null, "tokenize_chinese_chars": true})"));
  EXPECT_TRUE(words(R"({"do_lower_case": true, "strip_accents": true})"));
  EXPECT_TRUE(words(R"({"do_lower_case": false, "strip_accents": false})"));
  const auto refused = [&](const std::string& config, std::initializer_list<const char*> facts) {
    expect_error([&] { words(config); }, facts);
  };
  refused(R"({"do_lower_case": true, "strip_accents": false})",
          {"tokenizer_config.json: \"strip_accents\" is false, but it is true in a tokenizer "
           "\"wordpiece\"",
           "AutoTokenizer.from_pretrained(DIR)", "--tokenizer"});
  refused(R"({"do_lower_case": false, "strip_accents": true})", {"\"wordpiece-cased\""});
  refused(R"({"tokenize_chinese_chars": false})", {"\"tokenize_chinese_chars\" is false"});
  refused(R"({"do_basic_tokenize": false})", {"\"do_basic_tokenize\" is false"});
  refused("[]", {"tokenizer_config.json must be an object"});
  expect_error([&] { words("{}", R"({"<new>": 53})"); },
               {"added_tokens.json adds tokens to the vocabulary", "--tokenizer"});

  std::map<std::string, std::string> files = {{"vocab.json", "{}"}, {"merges.txt", ""}};
  const auto bytes = [&](const char* name, const char* text) {
    auto all = files;
    all[name] = text;
    return folder_tokenizer(folder_with(all));
  };
  EXPECT_TRUE(bytes("tokenizer_config.json", R"({"add_prefix_space": false})"));
  expect_error([&] { bytes("tokenizer_config.json", R"({"add_prefix_space": true})"); },
               {"\"add_prefix_space\" is true, but it is false in a tokenizer \"bpe\""});
  expect_error([&] { bytes("added_tokens.json", R"({"<pad>": 50257})"); }, {"adds tokens"});
  // A tokenizer.json is complete by itself.
  files["tokenizer.json"] = "{}";
  EXPECT_TRUE(bytes("tokenizer_config.json", R"({"add_prefix_space": true})"));
  EXPECT_FALSE(folder_tokenizer(folder_with({})));
}

TEST_F(HuggingFaceTokenizer, RoundTripsEveryKind) {
  // One merge of two bytes, and two special tokens.
  ModelConfig model = small_gpt();
  model.vocab_size = 300;
  const ExportedTokenizer bytes = files_of("byte", model);
  Json vocabulary = json_of(bytes, "vocab.json");
  vocabulary["Ġt"] = 257;
  vocabulary["<pad>"] = 258;
  const fs::path folder =
      folder_with({{"vocab.json", vocabulary.dump()}, {"merges.txt", "#version: 0.2\nĠ t\n"}});
  const std::string specs[] = {"byte", "bpe:" + folder.string(), wordpiece(),
                               "wordpiece-cased:" + (folder_ / "vocab.txt")};
  for (const std::string& spec : specs) {
    for (const ModelConfig& of : {model, [&] {
                                    ModelConfig bert = small_masked_lm();
                                    bert.vocab_size = 300;
                                    return bert;
                                  }()}) {
      const ExportedTokenizer exported = files_of(spec, of);
      const TokenizerIdentity identity = identity_of(*make_tokenizer(spec));
      EXPECT_EQ(identity_of(*import_tokenizer(folder_with(exported.files), {}).tokenizer),
                identity);
      auto without_json = exported.files;
      without_json.erase("tokenizer.json");
      const ImportedTokenizer again = import_tokenizer(folder_with(without_json), {});
      EXPECT_EQ(again.tokenizer->encode("the Tomb"), make_tokenizer(spec)->encode("the Tomb"));
    }
  }
  EXPECT_EQ(import_tokenizer(folder_with(bytes.files), {}).spec, "byte");
  EXPECT_EQ(import_tokenizer(folder, {}).spec, "bpe:" + folder.string());
  // GPT2Tokenizer supports only one special token.
  EXPECT_NE(json_of(files_of("bpe:" + folder.string(), model), "tokenizer_config.json")
                .at("tokenizer_class"),
            "GPT2Tokenizer");
}

TEST_F(HuggingFaceTokenizer, ExplainsMissingOrBrokenTokenizer) {
  expect_error([&] { import_tokenizer(folder_with({}), {}); },
               {"has no tokenizer (tokenizer.json, vocab.txt", "name one with --tokenizer",
                "wordpiece:path/to/vocab.txt", "with none the model's tokens are ids"});
  expect_error(
      [&] {
        import_tokenizer(folder_with({{"vocab.txt", "a\n\nb\n"}}), {});
      },
      {"cannot be imported", "line 2 is empty", "--tokenizer"});
  expect_error(
      [&] {
        import_tokenizer(folder_with({{"a.model", ""}, {"b.model", ""}}), {});
      },
      {"has 2 files that end in .model", "--tokenizer"});
  expect_error(
      [&] {
        import_tokenizer(folder_with({{"tokenizer.json", "{}"}}), {});
      },
      {"cannot be imported", "--tokenizer"});
  EXPECT_EQ(import_tokenizer(folder_with({}), "byte").spec, "byte");
}

TEST_F(HuggingFaceTokenizer, IdsHaveNoFiles) {
  const ModelConfig model = small_masked_lm();
  const IdTokenizer ids(model.vocab_size, {{"cls", 2}, {"mask", 4}, {"eos", 9}});
  const ExportedTokenizer exported = export_tokenizer(ids, model);
  EXPECT_TRUE(exported.files.empty());
  EXPECT_TRUE(names_all(exported.note, {"no tokenizer", "data.tokenizer: none"}));
  const Json expected = {{"bos_token_id", 9},
                         {"eos_token_id", 9},
                         {"pad_token_id", nullptr},
                         {"cls_token_id", 2},
                         {"mask_token_id", 4}};
  EXPECT_EQ(exported.ids, expected);
  EXPECT_EQ(import_ids(exported.ids, model.vocab_size, {}).tokenizer->to_json(), ids.to_json());
}

TEST_F(HuggingFaceTokenizer, TakesSpecialIdsFromConfig) {
  const auto special = [](const Json& config, const SpecialTokenIds& given) {
    return import_ids(config, 50, given).tokenizer->to_json().value("special_tokens", Json());
  };
  EXPECT_EQ(special({{"eos_token_id", 1}, {"pad_token_id", 0}}, {}),
            Json({{"eos", 1}, {"pad", 0}}));
  EXPECT_EQ(special({{"eos_token_id", 1}}, {{"eos", 2}, {"mask", 3}}),
            Json({{"eos", 2}, {"mask", 3}}));
  // Defaults of GPT2Config, lists of Llama 3, and no token.
  for (const Json& other : {Json(50256), Json({1, 2}), Json(nullptr), Json(-1), Json("x")}) {
    EXPECT_TRUE(special({{"eos_token_id", other}}, {}).is_null()) << other;
  }
  expect_error([&] { special({}, {{"mask", 50}}); }, {"mask is 50, but ids are 0 to 49"});
}

}  // namespace
}  // namespace tessera
