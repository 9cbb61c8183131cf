#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launch/support/text/json.h"
#include "models/model_config.h"

namespace tessera {

/// The labels that a file may use: 0 to count − 1, or, if `names` is set, one of `count` names,
/// which stand for 0 to count − 1 in order. `problem_type` says how many of them a text has; with
/// regression, its label is any number.
struct Labels {
  int64_t count = 0;
  std::vector<std::string> names = {};
  ProblemType problem_type = ProblemType::single_label_classification;
};

/// A JSON value for a message.
std::string shown(const Json& value);

/// Reads one label as it stands in the file; a text may have several.
class LabelReader {
 public:
  virtual ~LabelReader() = default;
  virtual int32_t of_json(const Json& value, const std::string& where) = 0;
  virtual int32_t of_column(std::string_view text, const std::string& where) = 0;
  /// Labels that are 1 or 0 for each of `count` labels.
  virtual void of_multi_hot(size_t count, const std::string& where) = 0;
};

/// Accepts the labels of a configuration, and returns their numbers.
class KnownLabels final : public LabelReader {
 public:
  /// Throws if there are fewer than two labels, except for regression, or if their names are
  /// duplicated or not `count` many. `labels` must outlive this.
  explicit KnownLabels(const Labels& labels);

  int32_t of_json(const Json& value, const std::string& where) override;
  int32_t of_column(std::string_view text, const std::string& where) override;
  void of_multi_hot(size_t count, const std::string& where) override;

 private:
  int32_t of_name(std::string_view name, const std::string& where) const;
  int32_t of_number(int64_t number, const std::string& where) const;

  const Labels& labels_;
};

/// Collects the labels of files, and returns 0 for each.
class FoundLabels final : public LabelReader {
 public:
  int32_t of_json(const Json& value, const std::string& where) override;
  int32_t of_column(std::string_view text, const std::string& where) override;
  void of_multi_hot(size_t count, const std::string& where) override;

  /// Those found so far, as find_labels() returns them.
  Labels labels(std::optional<int64_t> count) const;

 private:
  /// Whether the names are integers: any, or exactly 0, 1, 2, …
  bool is_numbered(bool any) const;

  bool json_numbers_ = false, json_names_ = false;
  std::set<int64_t> numbers_;
  std::set<std::string, std::less<>> names_;
};

}  // namespace tessera
