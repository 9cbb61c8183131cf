#include <CLI/CLI.hpp>
#include <atomic>
#include <thread>
#include <utility>

#include "launch/checkpoint/find.h"
#include "launch/checkpoint/verify.h"
#include "launch/cli/commands.h"
#include "tests/launch/checkpoint/fixture.h"

namespace tessera {
namespace {

using namespace testing_checkpoint;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CheckpointCorruption : public ::testing::Test {
 protected:
  // Reads every tensor and attachment. Throws if one is damaged.
  static void read_all(const fs::path& step_folder) {
    Checkpoint checkpoint = Checkpoint::open(step_folder);
    for (const auto& item : checkpoint.manifest().attachments) checkpoint.attachment(item.first);
    for (const auto& [name, tensor] : checkpoint.manifest().tensors) {
      const OwnedTensor out(tensor.shape, tensor.dtype);
      checkpoint.read(name, {}, out.tensor);
    }
  }

  TestFolder run_;
  fs::path step_ = save_on_threads(run_.path(), 5, 2, 1);
};

TEST_F(CheckpointCorruption, DetectsEveryChangedByte) {
  for (const std::string& name : names_in(step_)) {
    const std::string good = read_text(step_ / name);
    for (size_t i = 0; i < good.size(); i += name == kManifestName ? 7 : 1) {
      write_byte(step_ / name, i, static_cast<char>(good[i] ^ (1 << i % 8)));
      EXPECT_FALSE(verify_checkpoint(step_).whole()) << name << " at " << i;
      EXPECT_THROW(read_all(step_), Error) << name << " at " << i;
      write_byte(step_ / name, i, good[i]);
    }
  }
  EXPECT_TRUE(verify_checkpoint(step_).whole());
}

TEST_F(CheckpointCorruption, DetectsEveryTruncation) {
  for (const std::string& name : names_in(step_)) {
    const std::string good = read_text(step_ / name);
    for (size_t length = good.size(); length-- > 0;) {
      fs::resize_file(step_ / name, length);
      EXPECT_FALSE(verify_checkpoint(step_).whole()) << name << " of length " << length;
    }
    write_text(step_ / name, good + "x");
    EXPECT_FALSE(verify_checkpoint(step_).whole()) << name << ", longer";
    write_text(step_ / name, good);
  }
}

TEST_F(CheckpointCorruption, ReportsFilesAndDamage) {
  const fs::path file = step_ / "model_00001.safetensors";
  std::string bad = read_text(file);
  bad.back() = static_cast<char>(bad.back() ^ 1);
  write_text(file, bad);
  fs::remove(step_ / "optimizer_00000.safetensors");
  write_byte(step_ / "tokenizer.json", 2, 'S');
  const auto report = verify_checkpoint(step_);
  EXPECT_THAT(
      report.problems,
      ElementsAre(AllOf(HasSubstr("optimizer_00000.safetensors"), HasSubstr("No such file")),
                  AllOf(HasSubstr("tokenizer.json is damaged: its bytes have the checksum"),
                        HasSubstr("but the manifest says")),
                  AllOf(HasSubstr("model_00001.safetensors is damaged: the bytes of"),
                        HasSubstr("have the checksum xxh3-64:"))));
  EXPECT_THAT(to_string(report), HasSubstr("step_00000005: damaged: cannot"));
}

TEST_F(CheckpointCorruption, DetectsFolderNamedForDifferentStep) {
  fs::rename(step_, step_.parent_path() / step_name(6));
  EXPECT_THAT(verify_checkpoint(step_.parent_path() / step_name(6)).problems,
              ElementsAre(HasSubstr("has the manifest of step 5")));
}

TEST_F(CheckpointCorruption, FindsNewestIntactCheckpointAndReportsOthers) {
  const auto newest = save_alone(run_.path(), 7).path;
  const auto second = save_alone(run_.path(), 6).path;
  fs::resize_file(newest / "model_00000.safetensors", 100);
  fs::remove(second / kManifestName);
  std::vector<std::string> skipped;
  const auto found = newest_intact_checkpoint(
      run_.path(), [&](const std::string& line) { skipped.push_back(line); });
  EXPECT_EQ(found, step_);
  EXPECT_THAT(skipped,
              ElementsAre(AllOf(HasSubstr("step_00000007: damaged"), HasSubstr("it has 100 bytes")),
                          AllOf(HasSubstr("step_00000006: damaged"), HasSubstr(kManifestName))));
  const std::vector<std::string> first = std::exchange(skipped, {});
  EXPECT_EQ(
      resolve_checkpoint(run_.path(), [&](const std::string& line) { skipped.push_back(line); }),
      step_);
  EXPECT_EQ(skipped, first);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(resolve_checkpoint(run_.path()), step_);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("warning: passed over step_00000007: damaged"),
                    HasSubstr("warning: passed over step_00000006: damaged")));
  fs::remove(step_ / kManifestName);
  EXPECT_THAT(error_of([&] { resolve_checkpoint(run_.path()); }),
              AllOf(HasSubstr("no intact checkpoint"), HasSubstr("step_00000007: damaged"),
                    HasSubstr("step_00000005: damaged")));
}

// A reader may be within a folder when the run prunes it, and must then take the newer one.
TEST_F(CheckpointCorruption, LooksAgainWhileALiveRunPrunes) {
  std::atomic<bool> ends = false;
  std::thread run([&] {
    for (int64_t step = 6; !ends; ++step) save_alone(run_.path(), step, 0, /*keep=*/1);
  });
  std::vector<std::string> wrong;
  const auto note = [&](const std::string& line) { wrong.push_back(line); };
  for (int i = 0; i < 500; ++i) {
    try {
      resolve_checkpoint(run_.path(), note);
    } catch (const std::exception& error) {
      note(error.what());
    }
  }
  ends = true;
  run.join();
  EXPECT_THAT(wrong, ::testing::IsEmpty());
}

void run_verify(const std::string& path) {
  CLI::App app;
  add_verify_command(app);
  const char* arguments[] = {"tessera", "verify", path.c_str()};
  app.parse(3, arguments);
}

TEST_F(CheckpointCorruption, VerifyCommandListsCheckpointsAndThrowsOnDamage) {
  save_alone(run_.path(), 6);
  ::testing::internal::CaptureStdout();
  run_verify(run_.path().string() + "/");
  run_verify(step_.string());
  std::fflush(stdout);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(),
              AllOf(HasSubstr("step_00000006: intact, 6 tensors in 3 files"),
                    HasSubstr("step_00000005: intact, 6 tensors in 5 files")));
  fs::resize_file(step_ / "model_00000.safetensors", 100);
  ::testing::internal::CaptureStdout();
  EXPECT_THAT(error_of([&] { run_verify(run_.path().string()); }), HasSubstr("1 of 2 checkpoints"));
  std::fflush(stdout);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(),
              AllOf(HasSubstr("step_00000006: intact"), HasSubstr("step_00000005: damaged")));
  EXPECT_THAT(error_of([&] { run_verify("/nowhere"); }), HasSubstr("/nowhere is not a folder"));
}

}  // namespace
}  // namespace tessera
