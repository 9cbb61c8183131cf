#include "launch/logging/tensorboard_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <protozero/pbf_writer.hpp>
#include <vector>

#include "launch/support/files/checksum.h"
#include "launch/support/files/folders.h"
#include "parallel/host/host_name.h"

namespace tessera {
namespace {

using protozero::pbf_writer;

double seconds_since_1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

/// TensorBoard reads the files of a folder in the order of their names.
std::filesystem::path new_file(const std::filesystem::path& run_dir) {
  static std::atomic<int> count = 0;
  const std::filesystem::path folder = run_dir / "tensorboard";
  make_folders(folder);
  return folder / fmt::format("events.out.tfevents.{:010.0f}.{}.{}.{}", seconds_since_1970(),
                              host_name(), ::getpid(), count++);
}

template <typename Integer>
void add_bytes(std::string& to, Integer value) {
  char bytes[sizeof(value)];
  std::memcpy(bytes, &value, sizeof(value));
  to.append(bytes, sizeof(value));
}

/// TFRecord's checksum, rotated so that a checksum of data that contains checksums is no problem.
uint32_t masked_crc(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

std::string record_of(std::string_view event) {
  std::string record;
  add_bytes(record, uint64_t{event.size()});
  add_bytes(record, masked_crc(record));
  record += event;
  add_bytes(record, masked_crc(event));
  return record;
}

/// An Event: wall_time 1, step 2, and what `fill` adds.
template <typename Fill>
std::string event_at(int64_t step, const Fill& fill) {
  std::string bytes;
  pbf_writer event(bytes);
  event.add_double(1, seconds_since_1970());
  event.add_int64(2, step);
  fill(event);
  return record_of(bytes);
}

std::string version_event() {
  return event_at(0, [](pbf_writer& event) { event.add_string(3, "brain.Event:2"); });
}

/// SessionLog, status START.
std::string start_event(int64_t first_step) {
  return event_at(first_step, [](pbf_writer& event) {
    pbf_writer log(event, 7);
    log.add_enum(1, 1);
  });
}

std::string tag_of(std::string_view key) {
  if (key.starts_with("eval_")) return fmt::format("eval/{}", key.substr(5));
  return fmt::format("{}/{}", key.starts_with("save_") ? "checkpoint" : "train", key);
}

void add_number(pbf_writer& summary, const std::string& tag, const nlohmann::json& number) {
  pbf_writer value(summary, 1);
  value.add_string(1, tag);
  value.add_float(2, number.get<float>());
}

/// The buckets of a HistogramProto: those with values, each after one without if there is a gap
/// before it, from where the gap's ends.
struct ShownBuckets {
  std::vector<double> ends, counts;

  explicit ShownBuckets(const ValueHistogram& histogram) {
    int64_t shown = -1;
    for (int64_t i = 0; i < ValueHistogram::kBuckets; ++i) {
      const int64_t count = histogram.counts[static_cast<size_t>(i)];
      if (count == 0) continue;
      if (i > shown + 1) add(i - 1, 0);
      add(shown = i, count);
    }
  }

 private:
  void add(int64_t bucket, int64_t count) {
    ends.push_back(ValueHistogram::end_of(bucket));
    counts.push_back(static_cast<double>(count));
  }
};

}  // namespace

TensorBoardLog::TensorBoardLog(const std::filesystem::path& run_dir, int64_t steps_done)
    : file_(new_file(run_dir)) {
  file_.append(version_event());
  if (steps_done > 0) file_.append(start_event(steps_done + 1));
}

void TensorBoardLog::text(int64_t step, std::string_view tag, std::string_view markdown) {
  file_.append(event_at(step, [&](pbf_writer& event) {
    pbf_writer summary(event, 5), value(summary, 1);
    value.add_string(1, tag.data(), tag.size());
    {
      pbf_writer tensor(value, 8);
      tensor.add_enum(1, 7);  // DT_STRING
      {
        pbf_writer shape(tensor, 2), extent(shape, 2);
        extent.add_int64(1, 1);
      }
      tensor.add_bytes(8, markdown.data(), markdown.size());
    }
    pbf_writer metadata(value, 9), plugin(metadata, 1);
    plugin.add_string(1, "text");
  }));
}

void TensorBoardLog::histogram(int64_t step, std::string_view tag,
                               const ValueHistogram& histogram) {
  const int64_t total = histogram.total();
  if (total == 0) return;
  const ShownBuckets shown(histogram);
  file_.append(event_at(step, [&](pbf_writer& event) {
    pbf_writer summary(event, 5), value(summary, 1);
    value.add_string(1, tag.data(), tag.size());
    pbf_writer proto(value, 5);  // HistogramProto
    proto.add_double(1, histogram.least);
    proto.add_double(2, histogram.largest);
    proto.add_double(3, static_cast<double>(total));
    proto.add_double(4, histogram.sum);
    proto.add_double(5, histogram.sum_squares);
    proto.add_packed_double(6, shown.ends.begin(), shown.ends.end());
    proto.add_packed_double(7, shown.counts.begin(), shown.counts.end());
  }));
}

void TensorBoardLog::picture(int64_t step, const Picture& picture) {
  file_.append(event_at(step, [&](pbf_writer& event) {
    constexpr int kRgb = 3;
    pbf_writer summary(event, 5), value(summary, 1);
    value.add_string(1, picture.tag);
    pbf_writer image(value, 4);  // Summary.Image
    image.add_int32(1, static_cast<int32_t>(picture.height));
    image.add_int32(2, static_cast<int32_t>(picture.width));
    image.add_int32(3, kRgb);
    image.add_bytes(4, picture.png);
  }));
}

void TensorBoardLog::numbers(const nlohmann::json& line) {
  file_.append(event_at(line.at("step").get<int64_t>(), [&](pbf_writer& event) {
    pbf_writer summary(event, 5);
    for (const auto& [key, value] : line.items()) {
      if (value.is_number() && key != "step") add_number(summary, tag_of(key), value);
      if (!value.is_array() || !key.starts_with("eval_")) continue;
      for (size_t i = 0; i < value.size(); ++i) {
        if (value[i].is_number())
          add_number(summary, fmt::format("{}/{}", tag_of(key), i), value[i]);
      }
    }
  }));
}

std::optional<std::string> TensorBoardLog::problem() { return file_.problem(); }

}  // namespace tessera
