#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tessera {

/// Names of a configuration key in other frameworks.
struct ForeignKey {
  std::string_view key;          ///< "section.key", or "" if nothing here has that meaning
  std::string_view names[12];    ///< in lower case, with underscores; empty from some point on
  std::string_view remark = {};  ///< what to know about the difference, or ""

  /// "it is called model.num_layers here"
  std::string text() const;
};

/// The names in Megatron-LM, nanoGPT, Hugging Face, DeepSpeed, torchtitan and PyTorch that differ
/// from the ones here, and common short forms. None of them is a key here, in any section.
std::span<const ForeignKey> foreign_keys();

/// Null if the name is not one of them.
const ForeignKey* find_foreign_key(std::string_view name);

}  // namespace tessera
