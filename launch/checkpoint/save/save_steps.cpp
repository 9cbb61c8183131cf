#include "launch/checkpoint/save/save_steps.h"

#include <sys/stat.h>

#include <optional>
#include <utility>

#include "core/error.h"
#include "core/version.h"
#include "launch/checkpoint/save/save_files.h"
#include "launch/support/files/checksum.h"
#include "launch/support/files/folders.h"
#include "launch/support/files/output_file.h"
#include "launch/support/files/path_error.h"
#include "parallel/communicators/exchange.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

void check_attachment(const std::string& name, const std::string& bytes) {
  require_attachment_name(name, "an attachment of the checkpoint");
  require(static_cast<int64_t>(bytes.size()) <= kMaxAttachmentBytes,
          "{} has {} bytes, but at most {} can be kept in a checkpoint", name, bytes.size(),
          kMaxAttachmentBytes);
}

}  // namespace

SaveSteps::SaveSteps(SaveRequest request)
    : request_(std::move(request)), folder_(checkpoints_folder(request_.run_dir)) {}

void SaveSteps::agree(Communicator& world) {
  rank_ = world.rank();
  all_or_none(world, [&] {
    require(request_.step >= 0 && request_.samples >= 0 && request_.keep >= 0,
            "step {}, samples {} and keep {} cannot be negative", request_.step, request_.samples,
            request_.keep);
    for (const auto& [name, bytes] : request_.attachments) check_attachment(name, bytes);
    require_valid(request_.tensors);
  });
  id_ = broadcast_string(world, rank_ == 0 ? random_id() : "", 0);
  temporary_ = folder_ / hidden_name(request_.step, HiddenKind::temporary, id_);
}

void SaveSteps::create() {
  make_folders(folder_);
  warnings_ = clean_up_after_dead_saves(folder_);
  // Need not be synced: this name is temporary, and the final one is synced.
  if (mkdir(temporary_.c_str(), 0777) != 0) fail_with_errno("create", temporary_);
  observe("after_create");
}

void SaveSteps::add_checksums() {
  for (LocalTensor& tensor : request_.tensors) {
    tensor.checksum =
        checksum_of({static_cast<const std::byte*>(tensor.data.raw()), tensor.data.bytes()});
  }
}

std::string SaveSteps::write() {
  std::string written = write_files(temporary_, rank_, request_.tensors, request_.observer);
  observe("after_data");
  return written;
}

void SaveSteps::publish(std::vector<std::string> written_of_rank) {
  Manifest manifest{
      kVersion, request_.step, request_.samples, request_.model, request_.extra, {}, {}, {}};
  write_attachments(temporary_, request_.attachments, manifest);
  observe("before_manifest");
  fill_manifest(temporary_, std::move(written_of_rank), manifest);
  OutputFile file(temporary_ / kManifestName);
  file.write(manifest_text(manifest));
  file.sync_and_close();
  sync_folder(temporary_);
  observe("after_manifest");
  read_manifest(temporary_);  // an unreadable checkpoint must not replace a good one
  observe("before_rename");
  publishing_ = true;
  const std::optional<fs::path> earlier =
      name_checkpoint({request_.step, HiddenKind::temporary, temporary_}, id_, request_.observer);
  named_ = true;
  sync_folder(folder_);
  observe("after_rename");
  if (!earlier) return;
  try {
    delete_folder(*earlier);
  } catch (const Error& error) {
    warnings_.emplace_back(error.what());
  }
}

void SaveSteps::prune() {
  try {
    const auto problems = prune_checkpoints(folder_, request_.step, request_.keep, request_.best,
                                            id_, request_.observer);
    warnings_.insert(warnings_.end(), problems.begin(), problems.end());
    observe("after_prune");
  } catch (const std::exception& error) {
    warnings_.push_back(message_of(error));
  }
}

// Once renaming has begun, the folder may be the step's earlier checkpoint, which the next save
// cleans up.
void SaveSteps::discard() const {
  if (rank_ != 0 || publishing_ || temporary_.empty()) return;
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
}

SharedError SaveSteps::failure(const SharedError& error, Communicator& world) const {
  int32_t named = named_ ? 1 : 0;  // rank 0 knows
  world.all_reduce(Tensor(&named, {1}, DType::i32, kCpu), ReduceOp::max);
  if (named != 0) {
    return SharedError(
        fmt::format("{} is complete and has its final name, but a later step of saving failed: {}. "
                    "It may not survive a power failure; checkpoints of other steps are unchanged",
                    saved().path.string(), error.what()),
        ExitCode::output);
  }
  if (!request_.in_a_run) return error;
  return SharedError(
      fmt::format("the checkpoint of step {} was not saved: {} (earlier checkpoints are unchanged)",
                  request_.step, error.what()),
      ExitCode::output);
}

SavedCheckpoint SaveSteps::saved() const {
  SavedCheckpoint saved;
  saved.path = folder_ / step_name(request_.step);
  saved.step = request_.step;
  saved.warnings = warnings_;
  return saved;
}

void SaveSteps::observe(const char* point) const {
  if (request_.observer) request_.observer(point);
}

}  // namespace tessera
