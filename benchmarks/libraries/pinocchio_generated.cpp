// Code that Pinocchio generates for one model, over a batch of states on some threads: CppADCodeGen traces the
// algorithms, and the C compiler of this machine compiles the straight lines that it writes.
//
// usage: pinocchio_generated MODEL.txt STATES.bin THREADS FOLDER
//   MODEL.txt, STATES.bin  as for pinocchio_batch
//   FOLDER                 for generated code
// Input and output are those of pinocchio_batch. A quantity is generated and compiled when it is first asked for.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "pinocchio/codegen/cppadcg-algo.hpp"
#include "pinocchio/serialization.hpp"

namespace pin = pinocchio;
using Matrix = Eigen::MatrixXd;
using Index = std::int64_t;
using Base = pin::CodeGenBase<double>;
using Vector = Base::ADVectorXs;

struct States {
  Index count;
  Matrix with_acceleration, with_force;  // one column for each state: q, v, and acceleration or force
};

static States read_states(const char *path, const pin::Model &model) {
  std::ifstream file(path, std::ios::binary);
  States states;
  file.read(reinterpret_cast<char *>(&states.count), sizeof states.count);
  const auto read = [&](int rows) {
    Matrix values(rows, states.count);
    file.read(reinterpret_cast<char *>(values.data()), sizeof(double) * values.size());
    return values;
  };
  const Matrix q = read(model.nq), v = read(model.nv), acceleration = read(model.nv), force = read(model.nv);
  if (!file) throw std::runtime_error("the states' file is too short");
  for (Matrix *all : {&states.with_acceleration, &states.with_force}) {
    all->resize(model.nq + 2 * model.nv, states.count);
    *all << q, v, (all == &states.with_force ? force : acceleration);
  }
  return states;
}

// What to trace: of the model and data, q, v and an acceleration or force.
using Trace = std::function<void(const Base::ADModel &, Base::ADData &, const Vector &, const Vector &, const Vector &,
                                 Vector &)>;

struct Quantity {
  Index width;
  bool takes_force;
  Trace trace;
};

template <typename Values>
static Vector flat(const Eigen::MatrixBase<Values> &values) {
  const Base::ADMatrixXs copy = values;
  return Eigen::Map<const Vector>(copy.data(), copy.size());
}

static std::map<std::string, Quantity> quantities(const pin::Model &model) {
  const Index nv = model.nv;
  std::map<std::string, Quantity> all;
  all["mass matrix"] = {nv * nv, false, [](auto &m, auto &data, auto &q, auto &, auto &, Vector &out) {
    data.M.setZero();
    out = flat(pin::crba(m, data, q, pin::Convention::LOCAL));
  }};
  all["bias force"] = {nv, false, [](auto &m, auto &data, auto &q, auto &v, auto &, Vector &out) {
    out = pin::nonLinearEffects(m, data, q, v);
  }};
  all["inverse dynamics"] = {nv, false, [](auto &m, auto &data, auto &q, auto &v, auto &a, Vector &out) {
    out = pin::rnea(m, data, q, v, a);
  }};
  all["forward dynamics"] = {nv, true, [](auto &m, auto &data, auto &q, auto &v, auto &f, Vector &out) {
    out = pin::aba(m, data, q, v, f, pin::Convention::LOCAL);
  }};
  all["inverse dynamics derivatives"] = {2 * nv * nv, false,
                                         [](auto &m, auto &data, auto &q, auto &v, auto &a, Vector &out) {
    pin::computeRNEADerivatives(m, data, q, v, a);
    out << flat(data.dtau_dq), flat(data.dtau_dv);
  }};
  all["forward dynamics derivatives"] = {2 * nv * nv, true,
                                         [](auto &m, auto &data, auto &q, auto &v, auto &f, Vector &out) {
    pin::computeABADerivatives(m, data, q, v, f);
    out << flat(data.ddq_dq), flat(data.ddq_dv);
  }};
  return all;
}

class Generated : public Base {
 public:
  Generated(const pin::Model &model, const Quantity &quantity, const std::string &path, int threads)
      : Base(model, model.nq + 2 * model.nv, quantity.width, "f", path), trace_(quantity.trace) {
    build_jacobian = false;
    initLib();
    CppAD::cg::GccCompiler<double> compiler("/usr/bin/gcc");
    auto flags = compiler.getCompileFlags();
    flags.push_back("-march=native");
    compiler.setCompileFlags(flags);
    dynamicLibManager_ptr->createDynamicLibrary(compiler, false);
    loadLib(false);
    for (int thread = 0; thread < threads; ++thread) models_.push_back(dynamicLib_ptr->model("f"));
  }

  void buildMap() override {
    CppAD::Independent(ad_X);
    const Index nq = ad_model.nq, nv = ad_model.nv;
    const Vector q = ad_X.head(nq), v = ad_X.segment(nq, nv), last = ad_X.tail(nv);
    trace_(ad_model, ad_data, q, v, last, ad_Y);
    ad_fun.Dependent(ad_X, ad_Y);
    ad_fun.optimize("no_compare_op");
  }

  void evaluate(int thread, const double *x, double *out) {
    models_[thread]->ForwardZero(CppAD::cg::ArrayView<const double>(x, ad_X.size()),
                                 CppAD::cg::ArrayView<double>(out, ad_Y.size()));
  }

 private:
  Trace trace_;
  std::vector<std::unique_ptr<CppAD::cg::GenericModel<double>>> models_;
};

// Threads get at least so many states each: starting one costs as much as some dozens of states.
constexpr Index kFewest = 128;

static double run(Generated &code, const Matrix &inputs, Index batch, Index width, int threads,
                  std::vector<double> &results) {
  const auto begin = std::chrono::steady_clock::now();
  const Index parts = std::clamp<Index>(batch / kFewest, 1, threads);
  const auto part = [&](Index index) {
    for (Index k = batch * index / parts; k < batch * (index + 1) / parts; ++k)
      code.evaluate(index, inputs.col(k).data(), results.data() + k * width);
  };
  std::vector<std::thread> others;
  for (Index index = 1; index < parts; ++index) others.emplace_back(part, index);
  part(0);
  for (auto &thread : others) thread.join();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

int main(int count, char **arguments) {
  if (count < 5) return 2;
  pin::Model model;
  std::ifstream text(arguments[1]);
  model.loadFromString(std::string(std::istreambuf_iterator<char>(text), std::istreambuf_iterator<char>()));
  const States states = read_states(arguments[2], model);
  const int threads = std::max(1, std::stoi(arguments[3]));
  const auto all = quantities(model);
  std::map<std::string, std::unique_ptr<Generated>> codes;
  std::vector<double> results;
  Index batch;
  std::string name;
  while (std::cin >> batch && std::getline(std::cin >> std::ws, name)) {
    const auto quantity = all.find(name);
    if (quantity == all.end() || batch < 1 || batch > states.count) {
      std::cout << "unknown" << std::endl;
      continue;
    }
    auto &code = codes[name];
    if (!code) {
      const std::string path = std::string(arguments[4]) + "/" + std::to_string(codes.size());
      code = std::make_unique<Generated>(model, quantity->second, path, threads);
    }
    const Index width = quantity->second.width, rows = std::min<Index>(batch, 32);
    if (results.size() < static_cast<std::size_t>(batch * width)) results.resize(batch * width);
    const Matrix &inputs = quantity->second.takes_force ? states.with_force : states.with_acceleration;
    const double seconds = run(*code, inputs, batch, width, threads, results);
    std::cout << seconds << ' ' << width << ' ' << rows << '\n';
    std::cout.write(reinterpret_cast<const char *>(results.data()), sizeof(double) * rows * width);
    std::cout.flush();
  }
  return 0;
}
