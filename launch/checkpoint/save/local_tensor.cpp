#include "launch/checkpoint/save/local_tensor.h"

#include <map>

#include "core/error.h"

namespace tessera {

namespace {

void require_valid(const LocalTensor& local) {
  require(local.kind == kModelKind || local.kind == kOptimizerKind,
          "the kind of {} must be \"model\" or \"optimizer\", but is {}", local.name,
          quote(local.kind));
  require(!local.name.empty() && local.name.size() <= kMaxJsonText,
          "a tensor's name must have 1 to {} bytes, but {} has {}", kMaxJsonText, quote(local.name),
          local.name.size());
  require(is_within(local.box, local.global_shape),
          "{} of shape {} has no box at offset {} of shape {}", local.name,
          to_string(local.global_shape), to_string(local.box.offset), to_string(local.box.shape));
  require_shape(local.data, local.box.shape, "save_checkpoint", local.name.c_str());
  const Device device = local.data.device();
  require(local.make ? device.is_meta() : !device.is_meta(), "{} must be on {}, but is {}",
          local.name, local.make ? "the meta device" : "the cpu or a GPU", describe(local.data));
}

// Whether a rank may have both under one name.
bool are_pieces_of_one(const LocalTensor& a, const LocalTensor& b) {
  return a.kind == b.kind && a.global_shape == b.global_shape && a.data.dtype() == b.data.dtype() &&
         a.box != b.box;
}

}  // namespace

void require_valid(const std::vector<LocalTensor>& tensors) {
  std::map<std::string_view, const LocalTensor*> first;
  for (const LocalTensor& local : tensors) {
    const auto [known, is_new] = first.emplace(local.name, &local);
    require(is_new || are_pieces_of_one(*known->second, local), "the tensor {} is given twice",
            local.name);
    require_valid(local);
  }
}

}  // namespace tessera
