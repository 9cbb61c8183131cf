#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "launch/checkpoint/checkpoint.h"
#include "launch/checkpoint/checkpoint_chat.h"
#include "launch/checkpoint/checkpoint_tokenizer.h"
#include "launch/checkpoint/model_json.h"
#include "launch/config/values/value_rule.h"
#include "launch/support/text/human_text.h"
#include "launch/support/text/printable_text.h"
#include "launch/support/text/table.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "launch/tokenizers/tokenizer_identity.h"
#include "launch/tools/inspect/inspect.h"

namespace tessera {
namespace {

/// Bytes of the tensor files.
int64_t tensor_bytes(const Manifest& manifest) {
  int64_t bytes = 0;
  for (const auto& [name, file] : manifest.files) bytes += file.size;
  return bytes;
}

std::string files_text(const Manifest& manifest) {
  std::vector<std::vector<std::string>> rows = {{"file", "size"}};
  for (const auto& [name, file] : manifest.files) {
    rows.push_back({name, human_bytes(static_cast<size_t>(file.size))});
  }
  for (const auto& [name, attachment] : manifest.attachments) {
    rows.push_back({name, human_bytes(static_cast<size_t>(attachment.size))});
  }
  return table(rows, {1});
}

std::string parameters_text(const Manifest& manifest) {
  std::vector<std::vector<std::string>> rows = {
      {"parameter", "shape", "dtype", "elements", "slices"}};
  for (const auto& [name, tensor] : manifest.tensors) {
    if (tensor.kind != kModelKind) continue;
    rows.push_back({printable(name), to_string(tensor.shape), std::string(to_string(tensor.dtype)),
                    grouped(tensor.shape.numel()), std::to_string(tensor.slices.size())});
  }
  std::sort(rows.begin() + 1, rows.end(),
            [](const auto& a, const auto& b) { return in_natural_order(a.front(), b.front()); });
  return table(rows, {3, 4});
}

bool is_average(std::string_view tensor) { return tensor.ends_with(kEmaSuffix); }

/// The tensors of a kind, or only averages of weights: "1,063,424 in 70 tensors".
std::string count_text(const Manifest& manifest, const std::string& kind, bool averages = false) {
  int64_t elements = 0, tensors = 0;
  for (const auto& [name, tensor] : manifest.tensors) {
    if (tensor.kind != kind || is_average(name) != averages) continue;
    elements += tensor.shape.numel();
    ++tensors;
  }
  if (tensors == 0) return "none";
  return fmt::format("{} in {} tensors", grouped(elements), tensors);
}

std::string tokenizer_text(const Checkpoint& checkpoint) {
  try {
    const auto tokenizer = tokenizer_of(checkpoint);
    std::string text = to_string(identity_of(*tokenizer));
    const auto* ids = dynamic_cast<const IdTokenizer*>(tokenizer.get());
    if (ids != nullptr && !ids->special_ids().empty()) {
      text += ", special tokens " + SpecialTokenMap{}.write(ids->special_ids());
    }
    return text;
  } catch (const Error& error) {
    return fmt::format("none: {}", error.what());
  }
}

}  // namespace

std::string describe_checkpoint(const std::filesystem::path& step_folder) {
  const Checkpoint checkpoint = Checkpoint::open(step_folder);
  const Manifest& manifest = checkpoint.manifest();
  std::string text = fmt::format("{}: a checkpoint, written by Tessera {}\n", step_folder.string(),
                                 manifest.tessera_version);
  text += description_line("step", fmt::format("{}, after {} samples", grouped(manifest.step),
                                               grouped(manifest.samples)));
  text += description_line("model", human_model(model_from_json(manifest.model)));
  text += description_line("", to_text(manifest.model));
  text += description_line("parameters", count_text(manifest, kModelKind));
  text += description_line("optimizer", count_text(manifest, kOptimizerKind));
  if (checkpoint.has_average()) {
    text += description_line("average", count_text(manifest, kOptimizerKind, /*averages=*/true));
  }
  text += description_line("tokenizer", tokenizer_text(checkpoint));
  if (const auto chat = checkpoint_chat(checkpoint)) {
    const std::string& problem = chat->problem;
    text += description_line("chat template", problem.empty() ? chat->name : problem);
  }
  text += description_line("run", to_text(manifest.extra));
  text += description_line("files", human_bytes(static_cast<size_t>(tensor_bytes(manifest))) +
                                        "; their content was not read: tessera verify checks it");
  text += files_text(manifest);
  return text + parameters_text(manifest);
}

}  // namespace tessera
