// Code that Pinocchio generates for one model, over a batch of states on some threads: CppADCodeGen traces the
// algorithms, and the C compiler of this machine compiles the straight lines that it writes.
//
// usage: pinocchio_generated MODEL.txt STATES.bin THREADS FOLDER
//   MODEL.txt, STATES.bin, input and output as in pinocchio_server.hpp
//   FOLDER                 for generated code
// A quantity is generated and compiled when it is first asked for.
#include <functional>
#include <map>
#include <memory>

#include "pinocchio/codegen/cppadcg-algo.hpp"
#include "pinocchio_server.hpp"

using Base = pin::CodeGenBase<double>;
using Vector = Base::ADVectorXs;

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
      : Base(model, model.nq + 2 * model.nv, quantity.width, "f", path),
        width(quantity.width), takes_force(quantity.takes_force), trace_(quantity.trace) {
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

  const Index width;
  const bool takes_force;

 private:
  Trace trace_;
  std::vector<std::unique_ptr<CppAD::cg::GenericModel<double>>> models_;
};

// What the generated code reads of each state: q, v, and an acceleration or a force.
static Matrix inputs(const States &states, const Matrix &last) {
  Matrix all(states.q.rows() + states.v.rows() + last.rows(), states.count);
  all << states.q, states.v, last;
  return all;
}

int main(int count, char **arguments) {
  if (count < 5) return 2;
  const pin::Model model = read_model(arguments[1]);
  const States states = read_states(arguments[2], model);
  const Matrix with_acceleration = inputs(states, states.acceleration), with_force = inputs(states, states.force);
  const int threads = std::max(1, std::stoi(arguments[3]));
  const auto all = quantities(model);
  std::map<std::string, std::unique_ptr<Generated>> codes;
  const auto find = [&](const std::string &name) -> Generated * {
    const auto quantity = all.find(name);
    if (quantity == all.end()) return nullptr;
    auto &code = codes[name];
    if (!code) {
      const std::string path = std::string(arguments[4]) + "/" + std::to_string(codes.size());
      code = std::make_unique<Generated>(model, quantity->second, path, threads);
    }
    return code.get();
  };
  serve(states.count, threads, find, [&](Generated &code, Index thread, Index k, double *out) {
    code.evaluate(thread, (code.takes_force ? with_force : with_acceleration).col(k).data(), out);
  });
  return 0;
}
