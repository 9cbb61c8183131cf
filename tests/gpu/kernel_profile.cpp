// A library that CUDA loads into a program, to report the time of each kernel in a step of
// training:
//
//     CUDA_INJECTION64_PATH=libkernel_profile.so tessera train CONFIG --stop-at 20
//
// When the program ends, it writes lines of JSON to the file KERNEL_PROFILE (stderr), from the
// second half of the steps: the time of a step, how long no kernel ran in it, and each kernel with
// its calls and microseconds per step. A step ends where AdamW's scale is computed, once per step.

#include <cupti.h>
#include <cxxabi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr const char* kEndOfStep = "clip_scale_kernel";

/// Nanoseconds.
struct Span {
  uint64_t begin = 0, end = 0;
  uint32_t name = 0;
};

struct Profile {
  std::mutex mutex;
  std::map<std::string, uint32_t> names;  ///< mangled
  std::vector<Span> spans;

  void add(const char* name, uint64_t begin, uint64_t end) {
    const auto [entry, is_new] = names.emplace(name, static_cast<uint32_t>(names.size()));
    spans.push_back({begin, end, entry->second});
  }
};

/// Never destroyed, because CUPTI may deliver records while the program ends.
Profile& profile() {
  static Profile& instance = *new Profile;
  return instance;
}

/// Without namespaces, result and parameters, and not longer than a line.
std::string readable(const std::string& mangled) {
  constexpr size_t kLongest = 120;
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), std::free);
  std::string name = status == 0 ? text.get() : mangled;
  for (const char* part : {"void ", "(anonymous namespace)::", "tessera::", "cuda::"}) {
    for (size_t at = name.find(part); at != std::string::npos; at = name.find(part))
      name.erase(at, std::string(part).size());
  }
  // Casts in template arguments are in parentheses too.
  int depth = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    depth += name[i] == '<' ? 1 : name[i] == '>' ? -1 : 0;
    if (depth == 0 && name[i] == '(') name.resize(i);
  }
  name.erase(std::remove(name.begin(), name.end(), '"'), name.end());
  return name.substr(0, kLongest);
}

void write(const Profile& from, std::FILE* out) {
  std::vector<std::string> names(from.names.size());
  for (const auto& [name, index] : from.names) names[index] = readable(name);
  std::vector<Span> spans = from.spans;
  std::sort(spans.begin(), spans.end(),
            [](const Span& a, const Span& b) { return a.begin < b.begin; });
  std::vector<size_t> ends;
  for (size_t i = 0; i < spans.size(); ++i) {
    if (names[spans[i].name].find(kEndOfStep) != std::string::npos) ends.push_back(i);
  }
  if (ends.size() < 3) {
    std::fprintf(out, "note: %zu steps are too few for a profile\n", ends.size());
    return;
  }
  const size_t first = ends[ends.size() / 2], last = ends.back();
  const auto steps = static_cast<double>(ends.size() - 1 - ends.size() / 2);
  struct Total {
    double calls = 0.0, nanoseconds = 0.0;
  };
  std::map<std::string, Total> totals;
  uint64_t busy = 0, until = spans[first].end;
  const uint64_t begin = until;
  for (size_t i = first + 1; i <= last; ++i) {
    const Span& span = spans[i];
    Total& total = totals[names[span.name]];
    total.calls += 1.0, total.nanoseconds += static_cast<double>(span.end - span.begin);
    if (span.end > until) {
      busy += span.end - std::max(span.begin, until);
      until = span.end;
    }
  }
  const double whole = static_cast<double>(spans[last].end - begin);
  std::fprintf(out,
               "measured: {\"what\": \"step\", \"steps\": %.0f, \"microseconds\": %.1f, "
               "\"idle_microseconds\": %.1f}\n",
               steps, whole / 1e3 / steps, (whole - static_cast<double>(busy)) / 1e3 / steps);
  std::vector<std::pair<std::string, Total>> sorted(totals.begin(), totals.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.second.nanoseconds > b.second.nanoseconds;
  });
  for (const auto& [name, total] : sorted) {
    std::fprintf(out,
                 "measured: {\"what\": \"profile\", \"kernel\": \"%s\", \"calls\": %.1f, "
                 "\"microseconds\": %.1f, \"share\": %.4f}\n",
                 name.c_str(), total.calls / steps, total.nanoseconds / 1e3 / steps,
                 total.nanoseconds / whole);
  }
}

void CUPTIAPI give_buffer(uint8_t** buffer, size_t* size, size_t* most_records) {
  constexpr size_t kBytes = 8 << 20;
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(64, kBytes));
  *size = *buffer != nullptr ? kBytes : 0;
  *most_records = 0;
}

void CUPTIAPI take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t filled) {
  Profile& into = profile();
  const std::lock_guard<std::mutex> lock(into.mutex);
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, filled, &record) == CUPTI_SUCCESS) {
    switch (record->kind) {
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
        const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel9*>(record);
        into.add(kernel->name, kernel->start, kernel->end);
        break;
      }
      case CUPTI_ACTIVITY_KIND_MEMCPY: {
        const auto* copied = reinterpret_cast<const CUpti_ActivityMemcpy6*>(record);
        into.add("copy by the driver", copied->start, copied->end);
        break;
      }
      case CUPTI_ACTIVITY_KIND_MEMSET: {
        const auto* set = reinterpret_cast<const CUpti_ActivityMemset4*>(record);
        into.add("memset", set->start, set->end);
        break;
      }
      default:
        break;
    }
  }
  std::free(buffer);
}

void at_end() {
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  const std::lock_guard<std::mutex> lock(profile().mutex);
  const char* path = std::getenv("KERNEL_PROFILE");
  std::FILE* out = path != nullptr ? std::fopen(path, "w") : stderr;
  if (out == nullptr) return std::perror(path);
  write(profile(), out);
  if (out != stderr) std::fclose(out);
}

}  // namespace

/// CUDA calls this when it initializes. Returns 1 if the profile has started.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  bool ok = cuptiActivityRegisterCallbacks(give_buffer, take_buffer) == CUPTI_SUCCESS;
  for (const CUpti_ActivityKind kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                        CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET})
    ok = ok && cuptiActivityEnable(kind) == CUPTI_SUCCESS;
  if (!ok) {
    std::fprintf(stderr, "kernel_profile: CUPTI did not start\n");
    return 0;
  }
  std::atexit(at_end);
  return 1;
}
