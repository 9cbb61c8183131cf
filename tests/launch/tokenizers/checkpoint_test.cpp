#include "launch/checkpoint/checkpoint_tokenizer.h"
#include "launch/tokenizers/wordpiece/wordpiece_tokenizer.h"
#include "tests/launch/checkpoint/fixture.h"

namespace tessera {
namespace {

using namespace testing_checkpoint;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Saves a checkpoint with this "extra" and these attachments.
fs::path save_with(const fs::path& run_dir, const Json& extra,
                   const std::map<std::string, std::string>& attachments) {
  const RankTensors own = rank_tensors(test_model(), 0, 1);
  SaveRequest request = request_for(run_dir, 1, own);
  request.extra = extra;
  request.attachments = attachments;
  const auto self = make_self_communicator();
  return save_checkpoint(request, *self).path;
}

std::unique_ptr<Tokenizer> tokenizer_at(const fs::path& folder) {
  return tokenizer_of(Checkpoint::open(folder));
}

TEST(CheckpointTokenizer, RejectsCheckpointWithoutTokenizer) {
  const TestFolder run;
  EXPECT_THAT(error_of([&] { tokenizer_at(save_with(run.path(), Json::object(), {})); }),
              HasSubstr("has no tokenizer.json: it was saved without a tokenizer"));
}

TEST(CheckpointTokenizer, RoundTripsThroughCheckpoint) {
  const TestFolder run;
  const WordPieceTokenizer tokenizer(WordPieceVocabulary({"[UNK]", "é", "##\"x\""}, "v"), kCased);
  const auto step = save_with(run.path(), {{"tokenizer", "wordpiece-cased:/gone/vocab.txt"}},
                              {{kTokenizerAttachment, tokenizer_attachment(tokenizer)}});
  EXPECT_EQ(tokenizer_at(step)->to_json(), tokenizer.to_json());
  write_byte(step / kTokenizerAttachment, 5, 'x');
  EXPECT_THAT(error_of([&] { tokenizer_at(step); }),
              HasSubstr((step / kTokenizerAttachment).string() + " is damaged"));
}

TEST(CheckpointAttachments, RejectInvalidNames) {
  const TestFolder run;
  for (const char* name : {"../tokenizer.json", "manifest.json", "tokenizer"}) {
    EXPECT_THAT(
        error_of([&] {
          save_with(run.path(), Json::object(), {{name, "{}"}});
        }),
        AllOf(HasSubstr("the checkpoint of step 1 was not saved"), HasSubstr("attachment")));
  }
  EXPECT_FALSE(fs::exists(checkpoints_folder(run.path()) / step_name(1)));
}

}  // namespace
}  // namespace tessera
