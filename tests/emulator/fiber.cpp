// Fibers without system calls: a switch saves the registers that a called function must keep, and
// changes the stack. (ucontext's makes a system call for the signal mask each time.)

#include "tests/emulator/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
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

constexpr size_t kMost = 1024;  // as many as a block may have threads
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

// AddressSanitizer is told when the stack of the host's thread is left and when it is taken again.
// To it the stacks of all fibers are one: to tell it of each switch would take longer than the rest
// of the switch. Not thread-local, since grids take turns.
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
  /// In a fiber, which the host's thread may have switched to.
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

}  // namespace

Fiber* make_fiber(void (*entry)()) {
  static size_t made = 0;
  if (made == kMost) {
    std::fprintf(stderr, "emulated GPU: more threads than a block may have\n");
    std::abort();
  }
  std::byte* page = all_stacks() + made++ * (kPage + kStackBytes);
  mprotect(page, kPage, PROT_NONE);
  // Six registers, the entry to return to, and no return address above it.
  auto* top = reinterpret_cast<void**>(page + kPage + kStackBytes) - 8;
  top[6] = reinterpret_cast<void*>(entry);
  return new Fiber{top, page + kPage};
}

void enter_fiber(HostThread& from, Fiber& to) {
  host_stack.leaves();
  emulator_switch_stacks(&from.stack_pointer, to.stack_pointer);
  host_stack.has_returned();
}

void fiber_entered() { host_stack.may_have_left(); }

void switch_fiber(Fiber& from, Fiber& to) {
  emulator_switch_stacks(&from.stack_pointer, to.stack_pointer);
  host_stack.may_have_left();
}

void leave_fiber(Fiber& from, HostThread& to) {
  host_stack.returns();
  emulator_switch_stacks(&from.stack_pointer, to.stack_pointer);
  host_stack.may_have_left();
}

}  // namespace emulator
