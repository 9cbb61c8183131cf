#include "launch/tokenizers/tokenizer_spec.h"

#include "launch/tokenizers/tokenizer.h"
#include "tests/launch/data/test_files.h"

namespace tessera {
namespace {

TEST(TokenizerSpec, ParsesKindAndPath) {
  EXPECT_EQ(parse_tokenizer_spec("byte").kind, TokenizerKind::byte);
  const TokenizerSpec spec = parse_tokenizer_spec("wordpiece-cased:a:b/vocab.txt");
  EXPECT_EQ(spec.kind, TokenizerKind::wordpiece_cased);
  EXPECT_EQ(spec.path, "a:b/vocab.txt");
  for (const char* name : {"byte", "wordpiece", "wordpiece-cased", "bpe"}) {
    EXPECT_EQ(to_string(tokenizer_kind(name, "here")), name);
  }
}

TEST(TokenizerSpec, ErrorsListChoices) {
  EXPECT_EQ(error_of([] { parse_tokenizer_spec("vocab.txt"); }),
            "there is no tokenizer \"vocab.txt\": choose one of: byte, "
            "wordpiece:path/to/vocab.txt, wordpiece-cased:path/to/vocab.txt, "
            "bpe:path/to/folder, huggingface:path/to/tokenizer.json, "
            "tessera:path/to/tokenizer.json, sentencepiece:path/to/file.model, none");
  for (const char* text : {"wordpiece", "wordpiece:"}) {
    EXPECT_TRUE(names_all(error_of([&] { parse_tokenizer_spec(text); }),
                          {"does not say which vocabulary: write wordpiece:path/to/vocab.txt"}));
  }
  EXPECT_TRUE(names_all(error_of([] { parse_tokenizer_spec("byte:file"); }),
                        {"\"byte:file\" accepts no file: write byte"}));
  EXPECT_TRUE(names_all(error_of([] { make_tokenizer("none"); }),
                        {"none is no tokenizer", "one of: byte"}));
  EXPECT_THROW(parse_tokenizer_spec(""), Error);
}

TEST(MakeTokenizer, ReadsVocabulary) {
  const TestFolder folder;
  write_file(folder / "vocab.txt", "[UNK]\nab\n##c\n");
  EXPECT_EQ(make_tokenizer("byte")->kind(), "byte");
  for (const std::string kind : {"wordpiece", "wordpiece-cased"}) {
    const auto tokenizer = make_tokenizer(kind + ":" + (folder / "vocab.txt"));
    EXPECT_EQ(tokenizer->kind(), kind);
    EXPECT_EQ(tokenizer->vocab_size(), 3);
  }
  const auto cased = make_tokenizer("wordpiece-cased:" + (folder / "vocab.txt"));
  write_file(folder / "tokenizer.json", cased->to_json().dump());
  for (const std::string& path : {folder.path().string(), folder / "tokenizer.json"}) {
    EXPECT_EQ(make_tokenizer("tessera:" + path)->to_json(), cased->to_json());
    EXPECT_TRUE(names_all(error_of([&] { make_tokenizer("huggingface:" + path); }),
                          {"is the tokenizer of a checkpoint or dataset of Tessera: name it "
                           "tessera:" +
                           (folder / "tokenizer.json")}));
  }
  EXPECT_TRUE(names_all(error_of([&] { make_tokenizer("wordpiece:" + (folder / "none")); }),
                        {folder / "none", "No such file"}));
}

}  // namespace
}  // namespace tessera
