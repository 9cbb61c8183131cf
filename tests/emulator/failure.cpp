// Messages about a kernel that cannot continue, and about calls that a GPU would not survive.

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/emulator/block.h"
#include "tests/emulator/grid.h"

namespace emulator {
namespace {

std::string text(const uint3& at) {
  return "(" + std::to_string(at.x) + ", " + std::to_string(at.y) + ", " + std::to_string(at.z) +
         ")";
}

std::string hexadecimal(unsigned mask) {
  char digits[16];
  std::snprintf(digits, sizeof(digits), "0x%08x", mask);
  return digits;
}

std::string text(const Site& site) {
  const std::string_view file = site.file_name();
  const size_t slash = file.rfind('/');
  return std::string(slash == file.npos ? file : file.substr(slash + 1)) + ":" +
         std::to_string(site.line());
}

}  // namespace

std::string Block::place_of(unsigned i) const {
  const Thread& thread = threads_[i];
  const std::string who = "thread " + text(thread.index);
  switch (thread.state) {
    case State::ended:
      return who + " has ended";
    case State::at_exchange:
      return who + " is at the warp's exchange of " + text(thread.site) + " with mask " +
             hexadecimal(thread.parcel->mask);
    default:
      return who + " is at the __syncthreads of " + text(thread.site);
  }
}

/// No thread can continue: reports one that waits and one that it waits for.
void Block::fail_stuck() const {
  for (unsigned i = 0; i < count_; ++i) {
    if (threads_[i].state != State::at_exchange) continue;
    threadIdx = threads_[i].index;
    const unsigned first = i / kWarp * kWarp, mask = threads_[i].parcel->mask;
    for (unsigned lane = 0; lane < kWarp; ++lane) {
      const unsigned other = first + lane;
      if ((mask >> lane & 1u) == 0) continue;
      if (other >= count_) {
        fail("an exchange with absent lanes: " + place_of(i) + ", but the block ends before lane " +
             std::to_string(lane));
      }
      if (threads_[other].state != State::at_exchange) {
        fail("an exchange with absent lanes: " + place_of(i) + ", but " + place_of(other));
      }
      if (threads_[other].parcel->mask != mask) {
        fail("lanes at different exchanges: " + place_of(i) + ", but " + place_of(other));
      }
    }
  }
  unsigned waits = 0, ended = 0;
  for (unsigned i = 0; i < count_; ++i) {
    (threads_[i].state == State::ended ? ended : waits) = i;
  }
  threadIdx = threads_[waits].index;
  fail("a barrier with ended threads: " + place_of(waits) + ", but " + place_of(ended));
}

void fail(const std::string& what) {
  const Launch& launch = running_launch();
  std::fprintf(stderr, "emulated GPU: kernel '%s', block %s, thread %s: %s\n",
               launch.name == nullptr ? "?" : launch.name, text(blockIdx).c_str(),
               text(threadIdx).c_str(), what.c_str());
  std::abort();
}

void fail_call(const char* call, const std::string& what) {
  std::fprintf(stderr, "emulated GPU: %s: %s\n", call, what.c_str());
  std::abort();
}

}  // namespace emulator
