#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tessera {

/// Words [begin, end) of a sentence that name something of one type.
struct Entity {
  int32_t type = 0;
  int64_t begin = 0;
  int64_t end = 0;

  auto operator<=>(const Entity&) const = default;
};

/// Finds entities in labels as seqeval does by default: B- and I- begin and continue an entity, S-
/// is one of a single word, E- its last word, and O is outside. An entity also begins where its B-
/// is missing.
class EntityLabels {
 public:
  /// Whether all names are O or begin with B-, I-, S- or E-, and not all are O.
  static bool are_entities(const std::vector<std::string>& names);

  /// `names` must be entities. Without any, no label begins an entity.
  explicit EntityLabels(const std::vector<std::string>& names = {});

  bool empty() const { return tags_.empty(); }

  /// The entities of a sentence, in order. `labels` are numbers of `names`.
  std::vector<Entity> find(std::span<const int32_t> labels) const;

 private:
  struct Tag {
    char prefix = 'O';
    int32_t type = -1;  ///< −1 outside
  };

  static bool ends(Tag before, Tag tag);
  static bool begins(Tag before, Tag tag);

  std::vector<Tag> tags_;
};

}  // namespace tessera
