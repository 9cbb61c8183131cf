#include "launch/logging/tensorboard_log.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <map>
#include <protozero/pbf_reader.hpp>
#include <sstream>
#include <vector>

#include "launch/logging/metrics_log.h"
#include "launch/support/files/checksum.h"
#include "tests/support/test_folder.h"

namespace tessera {
namespace {

struct Event {
  int64_t step = 0;
  std::string version;
  bool starts = false;                   ///< a session
  std::map<std::string, float> numbers;  ///< by tag
  std::map<std::string, std::string> texts;
  std::map<std::string, std::map<double, double>> histograms;  ///< counts by the ends of buckets
  std::map<std::string, std::string> pictures;
};

std::vector<double> doubles_of(protozero::pbf_reader& field) {
  const auto packed = field.get_packed_double();
  return {packed.begin(), packed.end()};
}

Event event_of(const std::string& bytes) {
  Event event;
  for (protozero::pbf_reader fields(bytes); fields.next();) {
    if (fields.tag() == 2) {
      event.step = fields.get_int64();
    } else if (fields.tag() == 3) {
      event.version = fields.get_string();
    } else if (fields.tag() == 7) {
      auto log = fields.get_message();
      event.starts = log.next(1) && log.get_enum() == 1;
    } else if (fields.tag() == 5) {
      for (auto summary = fields.get_message(); summary.next(1);) {
        std::string tag;
        for (auto value = summary.get_message(); value.next();) {
          if (value.tag() == 1) {
            tag = value.get_string();
          } else if (value.tag() == 2) {
            event.numbers[tag] = value.get_float();
          } else if (value.tag() == 4) {
            for (auto image = value.get_message(); image.next();) {
              if (image.tag() == 4) {
                event.pictures[tag] = image.get_string();
              } else {
                image.skip();
              }
            }
          } else if (value.tag() == 5) {
            std::vector<double> ends, counts;
            for (auto proto = value.get_message(); proto.next();) {
              if (proto.tag() == 6) {
                ends = doubles_of(proto);
              } else if (proto.tag() == 7) {
                counts = doubles_of(proto);
              } else {
                proto.skip();
              }
            }
            EXPECT_EQ(ends.size(), counts.size());
            for (size_t i = 0; i < ends.size(); ++i) event.histograms[tag][ends[i]] = counts.at(i);
          } else if (value.tag() == 8) {
            auto tensor = value.get_message();
            if (tensor.next(8)) event.texts[tag] = tensor.get_string();
          } else {
            value.skip();
          }
        }
      }
    } else {
      fields.skip();
    }
  }
  return event;
}

uint32_t masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

/// The events of a run's only file, whose checksums must fit.
std::vector<Event> events_of(const std::filesystem::path& run) {
  std::vector<std::filesystem::path> files;
  for (const auto& file : std::filesystem::directory_iterator(run / "tensorboard"))
    files.push_back(file.path());
  EXPECT_EQ(files.size(), 1u);
  EXPECT_NE(files.at(0).string().find("tfevents"), std::string::npos);
  std::stringstream text;
  text << std::ifstream(files.at(0)).rdbuf();
  const std::string bytes = text.str();
  std::vector<Event> events;
  for (size_t at = 0; at < bytes.size();) {
    uint64_t length = 0;
    uint32_t of_length = 0, of_event = 0;
    std::memcpy(&length, bytes.data() + at, 8);
    std::memcpy(&of_length, bytes.data() + at + 8, 4);
    const std::string event = bytes.substr(at + 12, length);
    std::memcpy(&of_event, bytes.data() + at + 12 + length, 4);
    EXPECT_EQ(of_length, masked(crc32c(bytes.substr(at, 8))));
    EXPECT_EQ(of_event, masked(crc32c(event)));
    events.push_back(event_of(event));
    at += 16 + length;
  }
  return events;
}

TEST(TensorBoardLog, HasNumbersAndConfiguration) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);  // the check value of CRC-32C's definition
  const test::TestFolder folder;
  MetricsLog log(folder.path(), 4, "run: {dir: x}\n");
  SavedCheckpoint saved;
  saved.step = 5, saved.seconds = 0.5;
  log.saved(saved);
  Evaluation found;
  found.losses.token = 1.5;
  found.counts.token_targets = 8;
  found.f1 = {0.25, 0.75};
  log.evaluation(6, found);
  EXPECT_EQ(log.problem(), std::nullopt);

  const std::vector<Event> events = events_of(folder.path());
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  // Events of earlier files from this step on were not saved.
  EXPECT_TRUE(events[1].starts);
  EXPECT_EQ(events[1].step, 5);
  EXPECT_EQ(events[2].texts.at("configuration"), "```yaml\nrun: {dir: x}\n```\n");
  EXPECT_EQ(events[3].step, 5);
  EXPECT_EQ(events[3].numbers.at("checkpoint/save_seconds"), 0.5f);
  EXPECT_FALSE(events[3].numbers.contains("train/step"));
  EXPECT_EQ(events[4].step, 6);
  EXPECT_EQ(events[4].numbers.at("eval/loss"), 1.5f);
  EXPECT_EQ(events[4].numbers.at("eval/f1/1"), 0.75f);
}

TEST(TensorBoardLog, HasSamplesAsTextThatIsNoMarkdown) {
  const test::TestFolder folder;
  MetricsLog log(folder.path(), 0, "", /*has_samples=*/true);
  log.samples(8, {{"a", "# b ```` <b>"}, {"", "\xff"}});
  const std::vector<Event> events = events_of(folder.path());
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[2].step, 8);
  EXPECT_EQ(events[2].texts.at("samples/1"),
            "Prompt:\n\n```\na\n```\n\nText:\n\n`````\n# b ```` <b>\n`````\n");
  EXPECT_EQ(events[3].texts.at("samples/2"),
            "Prompt:\n\n```\n\n```\n\nText:\n\n```\n\xef\xbf\xbd\n```\n");
}

TEST(TensorBoardLog, HasHistogramsAndPictures) {
  const test::TestFolder folder;
  MetricsLog log(folder.path(), 0, "");
  ValueHistogram histogram;
  histogram.add(std::vector<float>{1.0f, 1.0f, -2.0f});
  log.histogram(3, "weights/a", histogram);
  log.histogram(3, "weights/none", {});
  log.picture(4, {"attention/layer_0/head_0", 2, 3, "PNG"});
  const std::vector<Event> events = events_of(folder.path());
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[2].step, 3);
  // -2 is where a bucket ends, and 1 where one begins; an empty one is before each.
  const std::map<double, double> expected = {{-2.25, 0}, {-2, 1}, {1, 0}, {1.125, 2}};
  EXPECT_EQ(events[2].histograms.at("weights/a"), expected);
  EXPECT_EQ(events[3].pictures.at("attention/layer_0/head_0"), "PNG");
}

TEST(TensorBoardLog, IsWrittenOnlyOnRequest) {
  const test::TestFolder folder;
  const MetricsLog log(folder.path(), 0);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "tensorboard"));
}

}  // namespace
}  // namespace tessera
