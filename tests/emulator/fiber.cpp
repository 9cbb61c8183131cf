// Fibers without system calls: a switch saves the callee-saved registers and changes the stack.
// (ucontext makes a system call for the signal mask on each switch.)

#include "tests/emulator/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef EMULATOR_FINDS_RACES
#include <sanitizer/tsan_interface.h>
#endif

extern "C" void emulator_switch_stacks(void** save, void* load);

asm(R"(
.text
.type emulator_switch_stacks, @function
emulator_switch_stacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulator_switch_stacks, .-emulator_switch_stacks
)");

namespace emulator {
namespace {

constexpr size_t kMost = 1024;  // maximum number of threads in a block
constexpr size_t kAllStacks = kMost * (kPage + kStackBytes);

std::byte* reserve_stacks() {
  void* mapped = mmap(nullptr, kAllStacks, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    std::perror("emulated GPU: no memory for its threads' stacks");
    std::abort();
  }
  return static_cast<std::byte*>(mapped);
}

std::byte* all_stacks() {
  static std::byte* const stacks = reserve_stacks();
  return stacks;
}

// Tells AddressSanitizer when a host thread leaves its stack and when it returns. All fibers count
// as one stack: reporting each switch would take longer than the switch itself. Not thread-local,
// because grids take turns.
class HostStack {
 public:
  void leaves() {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&own_frames_, all_stacks(), kAllStacks);
    crossing_ = true;
#endif
  }
  void returns() {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&fibers_frames_, bottom_, bytes_);
#endif
  }
  void has_returned() {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(own_frames_, nullptr, nullptr);
#endif
  }
  /// Called in a fiber, to which the host thread may have switched.
  void may_have_left() {
    if (!crossing_) return;
    crossing_ = false;
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fibers_frames_, &bottom_, &bytes_);
#endif
  }

 private:
  bool crossing_ = false;
  [[maybe_unused]] void *own_frames_ = nullptr, *fibers_frames_ = nullptr;
  [[maybe_unused]] const void* bottom_ = nullptr;
  [[maybe_unused]] size_t bytes_ = 0;
} host_stack;

// TSan takes fibers for threads. A switch alone does not order their accesses.
void* create_tsan_fiber() {
#ifdef EMULATOR_FINDS_RACES
  return __tsan_create_fiber(0);
#else
  return nullptr;
#endif
}
void* running_tsan_fiber() {
#ifdef EMULATOR_FINDS_RACES
  return __tsan_get_current_fiber();
#else
  return nullptr;
#endif
}
void switch_tsan_fiber([[maybe_unused]] void* to) {
#ifdef EMULATOR_FINDS_RACES
  __tsan_switch_to_fiber(to, __tsan_switch_to_fiber_no_sync);
#endif
}

}  // namespace

Fiber* make_fiber(void (*entry)()) {
  static size_t made = 0;
  if (made == kMost) {
    std::fprintf(stderr, "emulated GPU: more threads than a block may have\n");
    std::abort();
  }
  std::byte* page = all_stacks() + made++ * (kPage + kStackBytes);
  mprotect(page, kPage, PROT_NONE);
  // Six registers, the entry address to return to, and no return address above it.
  auto* top = reinterpret_cast<void**>(page + kPage + kStackBytes) - 8;
  top[6] = reinterpret_cast<void*>(entry);
  return new Fiber{top, page + kPage, create_tsan_fiber()};
}

void enter_fiber(HostThread& from, Fiber& to) {
  host_stack.leaves();
  from.tsan = running_tsan_fiber();
  switch_tsan_fiber(to.tsan);
  emulator_switch_stacks(&from.stack_pointer, to.stack_pointer);
  host_stack.has_returned();
}

void fiber_entered() { host_stack.may_have_left(); }

void switch_fiber(Fiber& from, Fiber& to) {
  switch_tsan_fiber(to.tsan);
  emulator_switch_stacks(&from.stack_pointer, to.stack_pointer);
  host_stack.may_have_left();
}

void leave_fiber(Fiber& from, HostThread& to) {
  host_stack.returns();
  switch_tsan_fiber(to.tsan);
  emulator_switch_stacks(&from.stack_pointer, to.stack_pointer);
  host_stack.may_have_left();
}

}  // namespace emulator
