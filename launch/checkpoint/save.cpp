#include "launch/checkpoint/save.h"

#include "core/error.h"
#include "core/version.h"
#include "launch/checkpoint/save_files.h"
#include "launch/files/folders.h"
#include "launch/files/output_file.h"
#include "launch/files/random_id.h"
#include "parallel/exchange.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

// One save, step by step. Where a rank may fail, on_all_ranks makes all of them fail together, so
// that none goes on to a collective that another will not reach.
class Save {
 public:
  Save(const SaveRequest& request, Communicator& world)
      : request_(request), world_(world), folder_(checkpoints_folder(request.run_dir)) {}

  SavedCheckpoint run() {
    try {
      agree();
      create();
      write();
      publish();
    } catch (const SharedError& error) {  // others are one rank's alone, and end all
      discard();
      if (!request_.in_a_run) throw;
      throw SharedError(
          fmt::format("the checkpoint of step {} was not saved: {} (earlier checkpoints are as "
                      "they were)",
                      request_.step, error.what()));
    }
    prune();
    return {folder_ / step_name(request_.step), warnings_};
  }

 private:
  bool is_root() const { return world_.rank() == 0; }

  void observe(const char* point) const {
    if (request_.observer) request_.observer(point);
  }

  template <typename Action>
  void on_all_ranks(Action&& action) {
    all_or_none(world_, action);
  }

  template <typename Action>
  void on_root(Action&& action) {
    on_all_ranks([&] {
      if (is_root()) action();
    });
  }

  void agree() {
    std::string held;
    on_all_ranks([&] {
      require(request_.step >= 0 && request_.samples >= 0 && request_.keep >= 0,
              "step {}, samples {} and keep {} can not be negative", request_.step,
              request_.samples, request_.keep);
      for (const auto& [name, bytes] : request_.attachments) check_attachment(name, bytes);
      held = describe_held(request_.tensors);
    });
    const std::vector<std::string> held_of_rank = all_gather_strings(world_, held);
    on_all_ranks([&] { plan_ = plan_save(held_of_rank); });
    id_ = broadcast_string(world_, is_root() ? random_id() : "", 0);
    temporary_ = folder_ / hidden_name(request_.step, HiddenKind::temporary, id_);
  }

  void create() {
    on_root([&] {
      make_folders(folder_);
      warnings_ = clean_up_after_dead_saves(folder_);
      make_folders(temporary_);
      observe("after_create");
    });
  }

  void write() {
    std::string written;
    on_all_ranks([&] {
      written = write_files(temporary_, plan_, world_.rank(), request_.tensors, request_.observer);
      observe("after_data");
    });
    written_of_rank_ = all_gather_strings(world_, written);
  }

  static void check_attachment(const std::string& name, const std::string& bytes) {
    require_attachment_name(name, "an attachment of the checkpoint");
    require(static_cast<int64_t>(bytes.size()) <= kMaxAttachmentBytes,
            "{} has {} bytes, but at most {} can be kept in a checkpoint", name, bytes.size(),
            kMaxAttachmentBytes);
  }

  void publish() {
    on_root([&] {
      Manifest manifest{
          kVersion, request_.step, request_.samples, request_.model, request_.extra, {}, {}, {}};
      write_attachments(temporary_, request_.attachments, manifest);
      observe("before_manifest");
      fill_manifest(temporary_, plan_, written_of_rank_, manifest);
      OutputFile file(temporary_ / kManifestName);
      file.write(manifest_text(manifest));
      file.sync_and_close();
      sync_folder(temporary_);
      observe("after_manifest");
      read_manifest(temporary_);  // what could not be read again must not replace what can
      observe("before_rename");
      publishing_ = true;
      publish_checkpoint({request_.step, HiddenKind::temporary, temporary_}, id_,
                         request_.observer);
      observe("after_rename");
    });
  }

  // All ranks have stopped writing. Once publish_checkpoint has begun, the folder may be the
  // earlier checkpoint of the step, which the next save cleans up.
  void discard() const {
    if (!is_root() || publishing_ || temporary_.empty()) return;
    std::error_code ignored;
    fs::remove_all(temporary_, ignored);
  }

  void prune() {
    on_root([&] {
      if (request_.keep == 0) return;
      const auto problems =
          prune_checkpoints(folder_, request_.step, request_.keep, id_, request_.observer);
      warnings_.insert(warnings_.end(), problems.begin(), problems.end());
      observe("after_prune");
    });
  }

  const SaveRequest& request_;
  Communicator& world_;
  fs::path folder_;
  SavePlan plan_;
  std::string id_;
  fs::path temporary_;
  std::vector<std::string> written_of_rank_;
  std::vector<std::string> warnings_;
  bool publishing_ = false;
};

}  // namespace

SavedCheckpoint save_checkpoint(const SaveRequest& request, Communicator& world) {
  return Save(request, world).run();
}

}  // namespace tessera
