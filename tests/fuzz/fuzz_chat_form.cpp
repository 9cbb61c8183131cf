// chat_template.json of a checkpoint

#include "launch/config/chat_form.h"
#include "tests/fuzz/fuzz_input.h"

using namespace tessera;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::refuse_or_take([&] {
    const ChatForm form =
        chat_form_from_json(parse_json(fuzz::text_of(data, size), "fuzz"), "fuzz");
    fuzz::expect(chat_form_from_json(to_json(form), "again") == form, "a form does not come back");
  });
  return 0;
}
