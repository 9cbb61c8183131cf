#include "launch/train/diagnosis/divergence_watch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

namespace tessera {
namespace {

/// The expected numbers of a run at a step.
struct Course {
  const char* name;
  int64_t steps;
  std::function<double(int64_t)> loss, norm;
  double noise = 0.05;  ///< of the logarithms
};

double decay(int64_t step, double from, double to, double over) {
  return to + (from - to) * std::exp(-static_cast<double>(step) / over);
}

/// The first step with a warning; 0 if there is none.
int64_t warned_at(const Course& course, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0.0, course.noise);
  DivergenceWatch watch;
  int64_t warned = 0;
  for (int64_t step = 1; step <= course.steps; ++step) {
    const double loss = course.loss(step) * std::exp(normal(random));
    const double norm = course.norm(step) * std::exp(2.0 * normal(random));
    if (watch.add(step, loss, norm).empty()) continue;
    EXPECT_EQ(warned, 0) << course.name << ": there is one warning";
    warned = step;
  }
  return warned;
}

double learns(int64_t step) { return decay(step, 10.0, 3.0, 200.0); }
double calm(int64_t) { return 1.0; }

TEST(DivergenceWatch, IsSilentInHealthyRuns) {
  const auto spike = [](int64_t step) { return step % 300 < 8 ? 5.0 : 1.0; };
  const Course courses[] = {
      {"language model", 2000, learns, calm},
      {"noisy batches", 2000, learns, calm, 0.3},
      {"rise of the norm in the warmup", 400, learns,
       [](int64_t step) { return std::min(1.0, 0.02 * static_cast<double>(step)); }},
      {"norm that rises over the whole run", 3000, learns,
       [](int64_t step) { return 0.1 * std::exp(static_cast<double>(step) / 600.0); }},
      {"learned by heart", 3000, [](int64_t step) { return decay(step, 0.7, 1e-4, 50.0); },
       [](int64_t step) { return decay(step, 1.0, 1e-3, 50.0); }, 1.0},
      {"spikes that heal", 3000,
       [&](int64_t step) { return learns(step) * (step > 60 ? std::sqrt(spike(step)) : 1.0); },
       [&](int64_t step) { return step > 60 ? spike(step) * 20.0 : 20.0; }},
      {"resumed, on a plateau", 500, [](int64_t) { return 2.0; }, calm, 0.2}};
  for (const Course& course : courses) {
    for (uint32_t seed = 0; seed < 20; ++seed) EXPECT_EQ(warned_at(course, seed), 0) << course.name;
  }
}

TEST(DivergenceWatch, WarnsSoonAfterNumbersRise) {
  const auto from = [](int64_t begin, double rate, const std::function<double(int64_t)>& before) {
    return [=](int64_t step) {
      return before(step) *
             (step < begin ? 1.0 : std::exp(rate * static_cast<double>(step - begin)));
    };
  };
  struct Case {
    Course course;
    int64_t begin, latest;
  };
  const Case cases[] = {{{"loss rises slowly", 900, from(500, 0.01, learns), calm}, 500, 570},
                        {{"loss explodes", 700, from(500, 0.5, learns), calm}, 500, 510},
                        {{"loss explodes at once", 30, from(8, 0.7, learns), calm}, 8, 16},
                        {{"loss goes back to that of a new model", 900,
                          [](int64_t step) { return step < 500 ? learns(step) : 9.0; }, calm},
                         500,
                         512},
                        {{"only the norm rises", 700, learns, from(500, 0.2, calm)}, 500, 530}};
  for (const auto& [course, begin, latest] : cases) {
    for (uint32_t seed = 0; seed < 20; ++seed) {
      const int64_t step = warned_at(course, seed);
      EXPECT_GT(step, begin) << course.name;
      EXPECT_LE(step, latest) << course.name;
    }
  }
}

TEST(DivergenceWatch, IgnoresNumbersThatAreNotFinite) {
  DivergenceWatch watch;
  for (int64_t step = 1; step <= 200; ++step) {
    EXPECT_EQ(watch.add(step, step % 3 == 0 ? std::nan("") : 2.0, INFINITY), "");
  }
}

}  // namespace
}  // namespace tessera
