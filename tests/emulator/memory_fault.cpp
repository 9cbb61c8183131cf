// Explains a fault on inaccessible memory of the emulated GPU. All other faults are passed to the
// previous handler, such as AddressSanitizer's.

#include "tests/emulator/memory_fault.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "tests/emulator/block.h"
#include "tests/emulator/device_memory.h"
#include "tests/emulator/grid.h"

namespace emulator {
namespace {

struct sigaction before;

void on_fault(int signal, siginfo_t* info, void* context) {
  const void* address = info->si_addr;
  if (in_kernel() && the_block().overflows_stack(address)) {
    fail("the thread needs more than the " + std::to_string(kStackBytes >> 10) +
         " KiB of stack that it has");
  }
  const DeviceAddress found = find_device_address(address);
  if (found.known) {
    if (in_kernel()) {
      fail("byte " + std::to_string(found.place) + " of a block of " + std::to_string(found.bytes) +
           " bytes of device memory was touched");
    }
    std::fprintf(
        stderr, "emulated GPU: the host touched device memory (byte %td of a block of %zu bytes)\n",
        found.place, found.bytes);
    std::abort();
  }
  if ((before.sa_flags & SA_SIGINFO) != 0) return before.sa_sigaction(signal, info, context);
  sigaction(signal, &before, nullptr);  // the access is repeated without this handler
}

/// A separate stack for the handler, because the fiber's stack may have overflowed.
class HandlerStack {
 public:
  HandlerStack() {
    stack_t now = {};
    sigaltstack(nullptr, &now);
    if ((now.ss_flags & SS_DISABLE) == 0) return;  // AddressSanitizer has set one up
    memory_.reset(new std::byte[kBytes]);
    stack_t mine = {};
    mine.ss_sp = memory_.get();
    mine.ss_size = kBytes;
    sigaltstack(&mine, nullptr);
  }
  ~HandlerStack() {
    if (!memory_) return;
    stack_t none = {};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, nullptr);
  }
  HandlerStack(const HandlerStack&) = delete;
  HandlerStack& operator=(const HandlerStack&) = delete;

 private:
  static constexpr size_t kBytes = 64 << 10;
  std::unique_ptr<std::byte[]> memory_;
};

}  // namespace

void catch_faults() {
  static const bool installed = [] {
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    return sigaction(SIGSEGV, &action, &before) == 0;
  }();
  static_cast<void>(installed);
  thread_local const HandlerStack stack;
  static_cast<void>(stack);
}

}  // namespace emulator
