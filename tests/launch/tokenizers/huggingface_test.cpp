#include "launch/tokenizers/huggingface_json.h"
#include "launch/tokenizers/tokenizer_identity.h"
#include "launch/tokenizers/wordpiece/wordpiece_tokenizer.h"
#include "tests/launch/tokenizers/bpe_fixture.h"

namespace tessera {
namespace {

using Tokens = std::vector<int32_t>;

Json added_token(const std::string& text, int64_t id) {
  return {{"id", id},        {"content", text},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

/// Like GPT-2's.
Json bpe_file() {
  const BpeDescription bpe = small_bpe({"Ġ t", "h e", "Ġt he"});
  const Json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}};
  Json vocab;
  for (size_t i = 0; i < bpe.tokens.size(); ++i) vocab[bpe.tokens[i]] = i;
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", {added_token("<|endoftext|>", 259)}},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", byte_level},
          {"decoder", byte_level},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", ""},
            {"end_of_word_suffix", ""},
            {"fuse_unk", false},
            {"vocab", vocab},
            {"merges", bpe.merges}}}};
}

/// Like BERT's.
Json wordpiece_file() {
  Json vocab = {{"fox", 5}, {"##es", 6}};
  Json added = Json::array();
  for (size_t i = 0; i < std::size(kBertSpecial); ++i) {
    vocab[std::string(kBertSpecial[i])] = i;
    added.push_back(added_token(std::string(kBertSpecial[i]), static_cast<int64_t>(i)));
  }
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added},
          {"normalizer",
           {{"type", "BertNormalizer"},
            {"clean_text", true},
            {"handle_chinese_chars", true},
            {"strip_accents", nullptr},
            {"lowercase", true}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"post_processor", {{"type", "TemplateProcessing"}, {"single", Json::array()}}},
          {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
          {"model",
           {{"type", "WordPiece"},
            {"unk_token", "[UNK]"},
            {"continuing_subword_prefix", "##"},
            {"max_input_chars_per_word", 100},
            {"vocab", vocab}}}};
}

std::string message_with(Json file, const std::string& pointer, const Json& value) {
  file[Json::json_pointer(pointer)] = value;
  return error_of([&] { huggingface_tokenizer(file, "t.json"); });
}

TEST(HuggingFace, MatchesTokenizersFromOtherFiles) {
  EXPECT_EQ(identity_of(*huggingface_tokenizer(bpe_file(), "t.json")),
            identity_of(small_bpe_tokenizer({"Ġ t", "h e", "Ġt he"})));
  const auto wordpiece = huggingface_tokenizer(wordpiece_file(), "t.json");
  const std::vector<std::string> tokens = {"[PAD]",  "[UNK]", "[CLS]", "[SEP]",
                                           "[MASK]", "fox",   "##es"};
  EXPECT_EQ(identity_of(*wordpiece),
            identity_of(WordPieceTokenizer(WordPieceVocabulary(tokens, "v"), kUncased)));
  EXPECT_EQ(wordpiece->encode("Foxes"), (Tokens{5, 6}));
  Json cased = wordpiece_file();
  cased["normalizer"]["lowercase"] = false;
  EXPECT_EQ(identity_of(*huggingface_tokenizer(cased, "t.json")),
            identity_of(WordPieceTokenizer(WordPieceVocabulary(tokens, "v"), kCased)));
}

TEST(HuggingFace, AddedTokensExtendVocabulary) {
  Json file = bpe_file();
  file["model"]["vocab"].erase("<|endoftext|>");
  EXPECT_EQ(huggingface_tokenizer(file, "t.json")->end_of_document(), 259);
  file["added_tokens"].push_back(added_token("<pad>", 260));
  EXPECT_EQ(huggingface_tokenizer(file, "t.json")->special().padding, 260);
  file["added_tokens"].push_back(added_token("<x>", 262));
  EXPECT_TRUE(names_all(error_of([&] { huggingface_tokenizer(file, "t.json"); }),
                        {"t.json: the token \"<x>\" has the number 262", "0 to 261"}));
  file["added_tokens"][2] = added_token("<pad>", 261);
  EXPECT_TRUE(names_all(error_of([&] { huggingface_tokenizer(file, "t.json"); }),
                        {"t.json: the number of the token \"<pad>\" is 260 here and 261 there"}));
  file["added_tokens"][2] = added_token("he", 257);
  EXPECT_TRUE(names_all(error_of([&] { huggingface_tokenizer(file, "t.json"); }),
                        {"the token \"he\" is declared as special"}));
}

TEST(HuggingFace, ReadsFileOrFolder) {
  const TestFolder folder;
  EXPECT_TRUE(names_all(error_of([&] { make_tokenizer("huggingface:" + folder.path().string()); }),
                        {folder / "tokenizer.json", "No such file"}));
  write_file(folder / "tokenizer.json", bpe_file().dump());
  EXPECT_EQ(make_tokenizer("huggingface:" + folder.path().string())->vocab_size(), 260);
  EXPECT_EQ(make_tokenizer("huggingface:" + (folder / "tokenizer.json"))->vocab_size(), 260);
  write_file(folder / "tokenizer.json", "{\"model\":");
  EXPECT_TRUE(names_all(error_of([&] { make_tokenizer("huggingface:" + folder.path().string()); }),
                        {"tokenizer.json is not valid JSON"}));
  EXPECT_TRUE(names_all(error_of([&] {
                          tokenizer_from_json({{"kind", "huggingface"}}, "c");
                        }),
                        {"c: there is no tokenizer \"huggingface\""}));
}

constexpr const char* kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

Json split(const std::string& regex, const char* behavior) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", regex}}},
          {"behavior", behavior},
          {"invert", false}};
}

// Unsupported settings are reported, never ignored.
TEST(HuggingFace, RejectsUnsupportedBpeSettings) {
  const Json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  const struct {
    const char* pointer;
    Json value;
    std::initializer_list<std::string> facts;
  } cases[] = {
      {"/version", "2.0", {"\"version\" is \"2.0\""}},
      {"/truncation", {{"max_length", 5}}, {"\"truncation\" is an object", "only null"}},
      {"/padding", {{"length", 5}}, {"\"padding\""}},
      {"/extra", 1, {"has \"extra\", whose effect on tokens is unknown"}},
      {"/normalizer", {{"type", "NFKC"}}, {"\"normalizer\" is \"NFKC\"", "only null"}},
      {"/normalizer", {{"type", "Prepend"}}, {"\"normalizer\" is \"Prepend\"", "of bytes"}},
      {"/normalizer",
       {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}, {{"type", "Lowercase"}}}}},
       {"\"normalizer\" is \"Lowercase\""}},
      {"/pre_tokenizer", nullptr, {"\"pre_tokenizer\" is missing", "only \"ByteLevel\""}},
      {"/pre_tokenizer", {{"type", "Whitespace"}}, {"\"pre_tokenizer\" is \"Whitespace\""}},
      {"/pre_tokenizer",
       {{"type", "Sequence"}, {"pretokenizers", {{{"type", "Punctuation"}}, byte_level}}},
       {"\"pre_tokenizer\" is \"Punctuation\"", "\"Split\" or \"Digits\" before"}},
      {"/pre_tokenizer",
       {{"type", "Sequence"}, {"pretokenizers", {split("\\d", "Isolated"), byte_level}}},
       {"\"pre_tokenizer\"", "\\d", "of GPT-2, GPT-4o, Llama 3, Qwen2 and DeepSeek-V3"}},
      {"/pre_tokenizer",
       {{"type", "Sequence"}, {"pretokenizers", {split(kQwen2, "MergedWithNext"), byte_level}}},
       {"\"behavior\" is \"MergedWithNext\""}},
      {"/pre_tokenizer",
       {{"type", "Sequence"}, {"pretokenizers", {split(kQwen2, "Removed"), byte_level}}},
       {"\"invert\" is false, but only true"}},
      {"/pre_tokenizer",
       {{"type", "Sequence"}, {"pretokenizers", {{{"type", "Split"}}, byte_level}}},
       {"\"pattern\""}},
      {"/pre_tokenizer/use_regex", false, {"\"use_regex\" of \"ByteLevel\" must be true unless"}},
      {"/pre_tokenizer/add_prefix_space", 1, {"\"add_prefix_space\" is 1, but only true or false"}},
      {"/post_processor", {{"type", "Other"}}, {"\"post_processor\" is \"Other\""}},
      {"/post_processor",
       {{"type", "Sequence"}, {"processors", {{{"type", "Sequence"}}}}},
       {"\"processors\" is \"Sequence\""}},
      {"/decoder", nullptr, {"\"decoder\" is missing"}},
      {"/decoder", {{"type", "BPEDecoder"}}, {"\"decoder\" is \"BPEDecoder\""}},
      {"/model", nullptr, {"\"model\" must be an object"}},
      {"/model/type", "WordLevel", {"\"model\" is \"WordLevel\"", "\"Unigram\" or \"WordPiece\""}},
      {"/model/dropout", 0.1, {"\"dropout\" is 0.1, but only null or 0.0"}},
      {"/model/byte_fallback", 1, {"\"byte_fallback\" is 1"}},
      {"/model/byte_fallback", true, {"\"pre_tokenizer\" is \"ByteLevel\"", "of characters"}},
      {"/model/ignore_merges", 1, {"\"ignore_merges\" is 1"}},
      {"/model/end_of_word_suffix", "</w>", {"\"end_of_word_suffix\" is \"</w>\""}},
      {"/model/continuing_subword_prefix", "##", {"\"continuing_subword_prefix\""}},
      {"/model/cache", 1, {"\"model\": has \"cache\""}},
      {"/model/merges/1", {"h", "e", "y"}, {"t.json: merge 2 must be a string or two strings"}},
      {"/model/merges/1", "hey", {"t.json: merge 2: a merge is two tokens"}},
      {"/model/vocab", Json::array(), {"\"vocab\" must be an object"}},
      {"/added_tokens/0/special", 1, {"\"<|endoftext|>\": \"special\" is 1"}},
      {"/added_tokens/0/normalised", true, {"\"<|endoftext|>\": has \"normalised\""}},
      {"/added_tokens/0/content", 5, {"\"content\" must be a string"}},
      {"/added_tokens", 5, {"\"added_tokens\" must be a list"}},
  };
  for (const auto& tested : cases) {
    const std::string message = message_with(bpe_file(), tested.pointer, tested.value);
    EXPECT_EQ(message.substr(0, 6), "t.json") << message;
    EXPECT_TRUE(names_all(message, tested.facts)) << tested.pointer;
  }
}

TEST(HuggingFace, RejectsUnsupportedWordPieceSettings) {
  const struct {
    const char* pointer;
    Json value;
    std::initializer_list<std::string> facts;
  } cases[] = {
      {"/normalizer", nullptr, {"\"normalizer\" is missing", "only \"BertNormalizer\""}},
      {"/normalizer/clean_text", false, {"\"clean_text\" is false"}},
      {"/normalizer/handle_chinese_chars", false, {"\"handle_chinese_chars\" is false"}},
      {"/normalizer/strip_accents", 1, {"\"strip_accents\" is 1"}},
      {"/pre_tokenizer", {{"type", "Whitespace"}}, {"\"pre_tokenizer\" is \"Whitespace\""}},
      {"/decoder/cleanup", false, {"\"cleanup\" is false"}},
      {"/decoder/prefix", "@@", {"\"prefix\" is \"@@\""}},
      {"/model/unk_token", "<unk>", {"\"unk_token\" is \"<unk>\", but only \"[UNK]\""}},
      {"/model/continuing_subword_prefix", "@@", {"\"@@\""}},
      {"/model/max_input_chars_per_word", 200, {"is 200, but only 100"}},
      {"/added_tokens/0", added_token("[X]", 7), {"\"[X]\"", "only [PAD], [UNK]"}},
      {"/added_tokens/4/lstrip", true, {"\"[MASK]\"", "without \"lstrip\""}},
  };
  for (const auto& tested : cases) {
    const std::string message = message_with(wordpiece_file(), tested.pointer, tested.value);
    EXPECT_EQ(message.substr(0, 6), "t.json") << message;
    EXPECT_TRUE(names_all(message, tested.facts)) << tested.pointer;
  }
}

TEST(HuggingFace, AcceptsPostProcessors) {
  for (const Json& harmless :
       {Json(nullptr), Json{{"type", "RobertaProcessing"}},
        Json{{"type", "Sequence"},
             {"processors", {{{"type", "ByteLevel"}}, {{"type", "TemplateProcessing"}}}}}}) {
    Json file = bpe_file();
    file["post_processor"] = harmless;
    EXPECT_EQ(identity_of(*huggingface_tokenizer(file, "t.json")),
              identity_of(*huggingface_tokenizer(bpe_file(), "t.json")));
  }
}

}  // namespace
}  // namespace tessera
