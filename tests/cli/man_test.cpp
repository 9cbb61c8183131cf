#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

using testing::HasSubstr;

class CliMan : public SmallRun {
 protected:
  static std::string page(const Arguments& name) {
    Arguments arguments = {"man"};
    arguments.insert(arguments.end(), name.begin(), name.end());
    const Outcome outcome = run(tessera(kAlone, arguments));
    expect_success(outcome);
    return outcome.output;
  }

  /// What groff says about a page, nothing if it is not installed.
  std::string warnings_of(const std::string& page) {
    write_text(path("page"), page);
    const std::string check =
        "! command -v groff >/dev/null || groff -K utf8 -man -Tutf8 -ww -z '" +
        path("page").string() + "' 2>&1";
    const Outcome outcome = run({"sh", "-c", check});
    expect_success(outcome);
    return outcome.output;
  }
};

TEST_F(CliMan, PrintsAPageOfEachCommand) {
  const Outcome words = run(tessera(kAlone, {"completion", "words", "--", ""}));
  std::istringstream names(words.output);
  int pages = 0;
  for (std::string name; names >> name; ++pages) {
    const std::string text = page({name});
    EXPECT_THAT(text, HasSubstr(".TH \"tessera-" + name + "\" 1 "));
    EXPECT_THAT(text, HasSubstr("\n.SH OPTIONS\n"));
    EXPECT_EQ(warnings_of(text), "") << name;
  }
  EXPECT_GT(pages, 20);
  EXPECT_THAT(page({"train"}), HasSubstr("\n.TP\n\\fB\\-\\-stop\\-at\\fR \\fISTEP\\fR\nSave and"));
  EXPECT_THAT(page({"tokenizer"}), HasSubstr("\n.SH tessera tokenizer train\n"));
}

TEST_F(CliMan, PrintsPagesOfTheProgramAndOfItsFile) {
  const std::string program = page({});
  EXPECT_THAT(program, HasSubstr("\\fBtessera\\-train\\fR(1)\nTrain a model.\n"));
  EXPECT_THAT(program, HasSubstr("\\fB75\\fR (\\fIhang\\fR)"));
  EXPECT_EQ(warnings_of(program), "");
  const std::string file = page({"yaml"});
  EXPECT_THAT(file, HasSubstr("\\fBoptimizer.lr\\fR"));
  EXPECT_EQ(warnings_of(file), "");
  expect_refused(run(tessera(kAlone, {"man", "no-page"})),
                 {"there is no page 'no-page': name a command, or yaml"});
}

}  // namespace
}  // namespace tessera::test
