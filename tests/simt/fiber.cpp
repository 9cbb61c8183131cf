// Fibers without system calls: a switch saves the registers that a called function must keep, and
// changes the stack. (ucontext's makes a system call for the signal mask each time.)

#include "tests/simt/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

extern "C" void simt_switch_stacks(void** save, void* load);

asm(R"(
.text
.type simt_switch_stacks, @function
simt_switch_stacks:
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
.size simt_switch_stacks, .-simt_switch_stacks
)");

namespace simt {
namespace {

// The one that was left last, to learn the bounds of a host thread's stack when a fiber is entered.
// Not thread-local: grids take turns, and a fiber may go on on another thread of the host.
Context* left = nullptr;

void finish_switch([[maybe_unused]] void* fake_stack) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(fake_stack, &left->bottom, &left->bytes);
#endif
}

}  // namespace

Context make_fiber(void (*entry)()) {
  void* mapped = mmap(nullptr, kPage + kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    std::perror("emulated GPU: no memory for a thread's stack");
    std::abort();
  }
  mprotect(mapped, kPage, PROT_NONE);
  Context context;
  auto* bottom = static_cast<std::byte*>(mapped) + kPage;
  context.bottom = bottom;
  context.bytes = kStackBytes;
  // Six registers, the entry to return to, and no return address above it.
  auto* top = reinterpret_cast<void**>(bottom + kStackBytes) - 8;
  top[6] = reinterpret_cast<void*>(entry);
  context.stack_pointer = top;
  return context;
}

void switch_context(Context& from, Context& to) {
  left = &from;
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&from.fake_stack, to.bottom, to.bytes);
#endif
  simt_switch_stacks(&from.stack_pointer, to.stack_pointer);
  finish_switch(from.fake_stack);
}

void fiber_entered() { finish_switch(nullptr); }

}  // namespace simt
