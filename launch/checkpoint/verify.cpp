#include "launch/checkpoint/verify.h"

#include <algorithm>

#include "core/error.h"
#include "core/exit_code.h"
#include "launch/checkpoint/checkpoint.h"
#include "launch/checkpoint/format/step_folder.h"

namespace tessera {

namespace {

// Runs `check`. If it throws, adds the reason to the problems and returns false.
template <typename Check>
bool holds(VerifyReport& report, Check&& check) {
  try {
    check();
    return true;
  } catch (const std::exception& error) {
    report.problems.push_back(message_of(error));
    return false;
  }
}

void verify_content(Checkpoint& checkpoint, VerifyReport& report) {
  const Manifest& manifest = checkpoint.manifest();
  report.step = manifest.step;
  report.tensors = manifest.tensors.size();
  report.files = manifest.files.size() + manifest.attachments.size();
  const auto named_step = step_of(report.path.filename().string());
  if (named_step && *named_step != manifest.step) {
    report.problems.push_back(fmt::format("the folder {} has the manifest of step {}",
                                          report.path.string(), manifest.step));
  }
  std::set<std::string> unreadable;  // reported once, not for each of their slices
  for (const auto& item : manifest.files) {
    report.bytes += item.second.size;
    if (!holds(report, [&] { checkpoint.file(item.first); })) unreadable.insert(item.first);
  }
  for (const auto& [name, attachment] : manifest.attachments) {
    report.bytes += attachment.size;
    holds(report, [&, &file = name] { checkpoint.attachment(file); });
  }
  for (const auto& item : manifest.tensors) {
    for (const StoredSlice& slice : item.second.slices) {
      if (unreadable.count(slice.file) == 1) continue;
      holds(report, [&] { checkpoint.verified_bytes(item.second, slice); });
    }
  }
}

}  // namespace

std::string to_string(const VerifyReport& report) {
  const std::string name = report.path.filename().string();
  if (report.whole()) {
    return fmt::format("{}: intact, {} tensors in {} files, {:.1f} MB", name, report.tensors,
                       report.files, static_cast<double>(report.bytes) / 1e6);
  }
  constexpr size_t kMost = 3;
  std::string text = name + ": damaged";
  for (size_t i = 0; i < std::min(kMost, report.problems.size()); ++i) {
    text += fmt::format("{} {}", i == 0 ? ":" : ";", report.problems[i]);
  }
  if (report.problems.size() > kMost) {
    text += fmt::format("; and {} more problems", report.problems.size() - kMost);
  }
  return text;
}

VerifyReport verify_checkpoint(const std::filesystem::path& step_folder) {
  VerifyReport report;
  report.path = step_folder;
  holds(report, [&] {
    Checkpoint checkpoint = Checkpoint::open(step_folder);
    verify_content(checkpoint, report);
  });
  return report;
}

}  // namespace tessera
