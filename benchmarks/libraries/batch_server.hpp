// What both programs share: the states of a batch from a file, threads, and answers over standard output.
//
// usage: PROGRAM MODEL.txt STATES.bin THREADS ...
//   STATES.bin  int64 count, then doubles: q [count, nq], v, acceleration, force [count, nv] each
// For each input line "BATCH QUANTITY" the quantity is computed and stored for the first BATCH states. Answer: one line
// "SECONDS WIDTH ROWS", then ROWS * WIDTH doubles, the results of the first states. An unknown quantity: "unknown".
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <Eigen/Core>

using Matrix = Eigen::MatrixXd;
using Index = std::int64_t;

struct States {
  Index count;
  Matrix q, v, acceleration, force;  // one column for each state
};

static States read_states(const char *path, int nq, int nv) {
  std::ifstream file(path, std::ios::binary);
  States states;
  file.read(reinterpret_cast<char *>(&states.count), sizeof states.count);
  const auto read = [&](Matrix &values, int rows) {
    values.resize(rows, states.count);
    file.read(reinterpret_cast<char *>(values.data()), sizeof(double) * values.size());
  };
  read(states.q, nq);
  read(states.v, nv);
  read(states.acceleration, nv);
  read(states.force, nv);
  if (!file) throw std::runtime_error("the states' file is too short");
  return states;
}

// Threads get at least so many states each: starting one costs as much as some dozens of states.
constexpr Index kFewest = 128;

// Calls compute(thread, state) for the states of a batch; returns the seconds that it takes.
template <typename Compute>
static double run(Index batch, Index threads, const Compute &compute) {
  const auto begin = std::chrono::steady_clock::now();
  const Index parts = std::clamp<Index>(batch / kFewest, 1, threads);
  const auto part = [&](Index thread) {
    for (Index k = batch * thread / parts; k < batch * (thread + 1) / parts; ++k) compute(thread, k);
  };
  std::vector<std::thread> others;
  for (Index thread = 1; thread < parts; ++thread) others.emplace_back(part, thread);
  part(0);
  for (auto &other : others) other.join();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Answers until the input ends. find(name) is a pointer to a quantity, which has a width, or null;
// compute(quantity, thread, state, out) writes the numbers of one state.
template <typename Find, typename Compute>
static void serve(Index count, Index threads, const Find &find, const Compute &compute) {
  std::vector<double> results;
  Index batch;
  std::string name;
  while (std::cin >> batch && std::getline(std::cin >> std::ws, name)) {
    const auto quantity = batch < 1 || batch > count ? nullptr : find(name);
    if (!quantity) {
      std::cout << "unknown" << std::endl;
      continue;
    }
    const Index width = quantity->width, rows = std::min<Index>(batch, 32);
    if (results.size() < static_cast<std::size_t>(batch * width)) results.resize(batch * width);
    const double seconds = run(batch, threads, [&](Index thread, Index k) {
      compute(*quantity, thread, k, results.data() + k * width);
    });
    std::cout << seconds << ' ' << width << ' ' << rows << '\n';
    std::cout.write(reinterpret_cast<const char *>(results.data()), sizeof(double) * rows * width);
    std::cout.flush();
  }
}
