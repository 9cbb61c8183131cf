#include <gtest/gtest.h>

#include "launch/data/indexed/dataset_metadata.h"
#include "launch/tokenizers/byte_tokenizer.h"
#include "tests/launch/data/test_files.h"

namespace tessera {
namespace {

DatasetMetadata metadata_of_two_documents() {
  DatasetMetadata metadata;
  metadata.tessera_version = "0.1.0";
  metadata.tokenizer = identity_of(ByteTokenizer());
  metadata.documents = 2;
  metadata.sequences = 2;
  metadata.tokens = 5;
  metadata.bytes = 3;
  metadata.unknown = 1;
  metadata.invalid = 7;
  metadata.end_of_document = true;
  metadata.empty_documents = 8;
  metadata.duplicates = 9;
  metadata.near_duplicates = 10;
  metadata.duplicates_dropped = true;
  metadata.shuffle_seed = 11;
  return metadata;
}

TEST(DatasetMetadata, RoundTrips) {
  const DatasetMetadata metadata = metadata_of_two_documents();
  EXPECT_EQ(parse_metadata(metadata_text(metadata), "m"), metadata);
  DatasetMetadata plain;  // without what is optional
  plain.tokenizer = metadata.tokenizer;
  EXPECT_EQ(parse_metadata(metadata_text(plain), "m"), plain);
}

TEST(DatasetMetadata, IsOptional) {
  const TestFolder folder;
  write_dataset(folder / "text", {{1, 2}, {3}});
  EXPECT_EQ(read_metadata(IndexedDataset(folder / "text")), std::nullopt);
}

TEST(DatasetMetadata, MustMatchIndex) {
  const TestFolder folder;
  write_dataset(folder / "text", {{1, 2}, {3, 4, 5}});
  DatasetMetadata metadata = metadata_of_two_documents();
  write_file(folder / "text.meta.json", metadata_text(metadata));
  EXPECT_EQ(read_metadata(IndexedDataset(folder / "text")), metadata);
  metadata.tokens = 6;
  write_file(folder / "text.meta.json", metadata_text(metadata));
  EXPECT_TRUE(names_all(error_of([&] { read_metadata(IndexedDataset(folder / "text")); }),
                        {"text.meta.json", "6 tokens", "has 5", "another dataset"}));
}

TEST(DatasetMetadata, RejectsDamagedText) {
  const std::string whole = metadata_text(metadata_of_two_documents());
  EXPECT_TRUE(names_all(error_of([&] { parse_metadata("{}", "m"); }), {"m", "tessera_version"}));
  EXPECT_TRUE(names_all(error_of([&] { parse_metadata("[]", "m"); }), {"m", "object"}));
  std::string text = whole;
  text.replace(text.find("true", text.find("end_of_document")), 4, "1");
  EXPECT_TRUE(names_all(error_of([&] { parse_metadata(text, "m"); }), {"end_of_document"}));
  for (size_t n = 0; n + 2 < whole.size(); ++n) {
    EXPECT_THROW(parse_metadata(whole.substr(0, n), "m"), Error) << n;
  }
}

TEST(TokenizerIdentity, RoundTripsThroughJson) {
  const TokenizerIdentity identity = identity_of(ByteTokenizer());
  EXPECT_EQ(identity.kind, "byte");
  EXPECT_EQ(identity.vocab_size, 257);
  EXPECT_EQ(tokenizer_identity_from_json(to_json(identity), "t"), identity);
  EXPECT_TRUE(names_all(error_of([&] {
                          tokenizer_identity_from_json(Json{{"kind", "byte"}}, "t");
                        }),
                        {"t", "vocab_size"}));
}

}  // namespace
}  // namespace tessera
