#include "launch/data/prepare/prepare.h"

#include <sys/stat.h>

#include <random>
#include <thread>

#include "launch/data/indexed/indexed_dataset.h"
#include "launch/tokenizers/byte_tokenizer.h"
#include "tests/launch/data/test_files.h"

namespace tessera {
namespace {

using Names = std::vector<std::string>;

std::vector<int32_t> document(const IndexedDataset& dataset, int64_t index) {
  std::vector<int32_t> tokens(static_cast<size_t>(dataset.sequence_length(index)));
  dataset.read(index, 0, tokens);
  return tokens;
}

TEST(Prepare, EachFileBecomesADocument) {
  const TestFolder folder;
  const std::string large(3 * (1 << 20) + 17, '\xe9');  // several pieces
  write_file(folder / "a", "ab");
  write_file(folder / "empty", "");
  write_file(folder / "large", large);
  const PrepareReport report =
      prepare({.input = {.inputs = {folder / "a", folder / "empty", folder / "large"}},
               .append_end = true,
               .output = folder / "x/y/set"});
  EXPECT_EQ(report.documents, 2);
  EXPECT_EQ(report.empty_documents, 1);
  EXPECT_EQ(report.sequences, 2);
  EXPECT_EQ(report.bytes, static_cast<int64_t>(2 + large.size()));
  EXPECT_EQ(report.tokens, report.bytes + 2);
  EXPECT_EQ(report.token_type, TokenType::u16);
  const IndexedDataset dataset(folder / "x/y/set", 257);
  EXPECT_EQ(dataset.num_documents(), 2);
  EXPECT_EQ(document(dataset, 0), (std::vector<int32_t>{'a', 'b', 256}));
  EXPECT_EQ(ByteTokenizer().decode(document(dataset, 1)), large);
}

/// The sequences of a dataset as text, with one list per document.
std::vector<Names> text_of(const std::string& prefix) {
  const IndexedDataset dataset(prefix, 257);
  std::vector<Names> documents;
  for (int64_t i = 0; i < dataset.num_documents(); ++i) {
    const Range sequences = dataset.document_sequences(i);
    Names& texts = documents.emplace_back();
    for (int64_t j = sequences.begin; j < sequences.end; ++j) {
      texts.push_back(ByteTokenizer().decode(document(dataset, j)));
    }
  }
  return documents;
}

TEST(Prepare, SplitsFilesParagraphsOrLines) {
  const TestFolder folder;
  write_file(folder / "a", "\n\none\n  two\r\n \t\r\n\nthree\n\n\n");
  write_file(folder / "b", "four\r\n\n\rfive \r\n\n six");
  const auto prepare_documents = [&](Documents documents, Sentences sentences) {
    prepare({.input = {.inputs = {folder / "a", folder / "b"}},
             .documents = documents,
             .sentences = sentences,
             .output = folder / "set",
             .overwrite = true});
    return text_of(folder / "set");
  };
  using Texts = std::vector<Names>;
  EXPECT_EQ(prepare_documents(Documents::file, Sentences::none),
            (Texts{{read_file(folder / "a")}, {read_file(folder / "b")}}));
  EXPECT_EQ(prepare_documents(Documents::file, Sentences::line),
            (Texts{{"one", "  two", "three"}, {"four", "\rfive ", " six"}}));
  EXPECT_EQ(prepare_documents(Documents::paragraph, Sentences::none),
            (Texts{{"one\n  two"}, {"three"}, {"four"}, {"\rfive "}, {" six"}}));
  EXPECT_EQ(prepare_documents(Documents::paragraph, Sentences::line),
            (Texts{{"one", "  two"}, {"three"}, {"four"}, {"\rfive "}, {" six"}}));
  for (const Sentences sentences : {Sentences::none, Sentences::line}) {
    EXPECT_EQ(prepare_documents(Documents::line, sentences),
              (Texts{{"one"}, {"  two"}, {"three"}, {"four"}, {"\rfive "}, {" six"}}));
  }
}

TEST(Prepare, SkipsAndCountsEmptyDocuments) {
  const TestFolder folder;
  write_file(folder / "vocab.txt", "[UNK]\na\n##b\n");
  write_file(folder / "text", "ab c\n\n\x01\nab\xff ab\n");
  const PrepareReport report = prepare({.tokenizer = "wordpiece:" + (folder / "vocab.txt"),
                                        .input = {.inputs = {folder / "text"}},
                                        .documents = Documents::line,
                                        .output = folder / "set"});
  EXPECT_EQ(report.documents, 2);
  EXPECT_EQ(report.empty_documents, 2);
  EXPECT_EQ(report.sequences, 2);
  EXPECT_EQ(report.tokens, 7);  // no end-of-document token
  EXPECT_EQ(report.unknown, 1);
  EXPECT_EQ(report.invalid, 1);
  const IndexedDataset dataset(folder / "set", 3);
  EXPECT_EQ(document(dataset, 0), (std::vector<int32_t>{1, 2, 0}));
  EXPECT_EQ(document(dataset, 1), (std::vector<int32_t>{1, 2, 1, 2}));

  write_file(folder / "blank", " \n\n");
  EXPECT_TRUE(names_all(error_of([&] {
                          prepare({.input = {.inputs = {folder / "blank"}},
                                   .documents = Documents::paragraph,
                                   .output = folder / "nothing"});
                        }),
                        {"none of the 1 inputs has any text"}));
  EXPECT_FALSE(std::filesystem::exists(folder / "nothing.bin"));
}

// The output does not depend on where the pieces of a file end.
TEST(Prepare, OutputIsIndependentOfPieceBoundaries) {
  const TestFolder folder;
  std::string vocabulary = "[UNK]\n狐\n.\n";
  for (int i = 0; i < 26; ++i) {
    const char letter = static_cast<char>('a' + i);
    vocabulary += fmt::format("{0}\n##{0}\n", letter);
  }
  write_file(folder / "vocab.txt", vocabulary);
  const std::string spec = "wordpiece:" + (folder / "vocab.txt");
  const auto tokenizer = make_tokenizer(spec);
  std::mt19937 random(1);
  const char* const words[] = {"fox ", "jumps", "狐", ". ", "\n", "É"};
  std::string text;
  while (text.size() < (size_t{5} << 19)) text += words[random() % std::size(words)];
  write_file(folder / "text", text);
  prepare({.tokenizer = spec, .input = {.inputs = {folder / "text"}}, .output = folder / "set"});
  EXPECT_TRUE(document(IndexedDataset(folder / "set"), 0) == tokenizer->encode(text));
  // A huge word is cut: each piece except its last letter is [UNK], and so is the rest.
  write_file(folder / "word", std::string(size_t{5} << 20, 'x'));
  const PrepareReport report = prepare(
      {.tokenizer = spec, .input = {.inputs = {folder / "word"}}, .output = folder / "word_set"});
  EXPECT_EQ(report.unknown, 5);
  EXPECT_EQ(report.tokens, 10);
}

TEST(Prepare, ReadsPipes) {
  const TestFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::thread writer([&] { write_file(folder / "pipe", "from a pipe"); });
  EXPECT_EQ(prepare({.input = {.inputs = {folder / "pipe"}}, .output = folder / "set"}).bytes, 11);
  writer.join();
}

TEST(Prepare, NamesAllUnreadableInputs) {
  const TestFolder folder;
  write_file(folder / "good", "text");
  std::filesystem::create_directory(folder / "dir");
  const std::string message = error_of([&] {
    prepare({.input = {.inputs = {folder / "no1", folder / "good", folder / "no2", folder / "dir"}},
             .output = folder / "new/set"});
  });
  EXPECT_TRUE(names_all(message, {"3 of 4", folder / "no1: No such file", folder / "no2: No such",
                                  folder / "dir: is a directory"}));
  EXPECT_EQ(message.find("good"), std::string::npos);
  EXPECT_EQ(folder.names(), (Names{"dir", "good"}));
  EXPECT_TRUE(names_all(error_of([&] { prepare({.output = folder / "set"}); }), {"no input"}));
}

TEST(Prepare, NamesUnwritableOutput) {
  const TestFolder folder;
  write_file(folder / "text", "text");
  EXPECT_TRUE(
      names_all(error_of([&] {
                  prepare({.input = {.inputs = {folder / "text"}}, .output = folder / "text/set"});
                }),
                {"folder " + (folder / "text"), "cannot be created"}));
  prepare({.input = {.inputs = {folder / "text"}}, .output = folder / "set"});
  EXPECT_TRUE(names_all(error_of([&] {
                          prepare(
                              {.input = {.inputs = {folder / "text"}}, .output = folder / "set"});
                        }),
                        {"set.bin", "exists"}));
  EXPECT_TRUE(names_all(error_of([&] {
                          prepare({.tokenizer = "words",
                                   .input = {.inputs = {folder / "text"}},
                                   .output = folder / "other"});
                        }),
                        {"words", "byte"}));
}

TEST(Prepare, NeverOverwritesItsInput) {
  const TestFolder folder;
  write_file(folder / "set.bin", "precious");
  write_file(folder / "new.idx.tmp", "precious");
  write_file(folder / "meta.meta.json", "precious");
  EXPECT_TRUE(names_all(error_of([&] {
                          prepare({.input = {.inputs = {folder / "set.bin"}},
                                   .output = folder / "./set",
                                   .overwrite = true});
                        }),
                        {"set.bin", "choose another output"}));
  EXPECT_THROW(prepare({.input = {.inputs = {folder / "new.idx.tmp"}}, .output = folder / "new"}),
               Error);
  EXPECT_THROW(
      prepare({.input = {.inputs = {folder / "meta.meta.json"}, .formats = InputFormats::text},
               .output = folder / "meta",
               .overwrite = true}),
      Error);
  EXPECT_EQ(read_file(folder / "set.bin"), "precious");
  EXPECT_EQ(read_file(folder / "meta.meta.json"), "precious");
  EXPECT_EQ(read_file(folder / "new.idx.tmp"), "precious");
}

}  // namespace
}  // namespace tessera
