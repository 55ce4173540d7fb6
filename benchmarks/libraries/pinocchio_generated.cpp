// Code that Pinocchio generates for one model, over a batch of states on some threads: CppADCodeGen traces the
// algorithms, and the C compiler of this machine compiles the straight lines that it writes.
//
// usage: pinocchio_generated MODEL.txt STATES.bin THREADS FOLDER
//   MODEL.txt              the tree as benchmarks/libraries/pinocchio_cpp.py writes it
//   STATES.bin, input and output as in batch_server.hpp
//   FOLDER                 for generated code
// A quantity is generated and compiled when it is first asked for.

// Pinocchio asks each joint whether it is a mimic joint, which would be refused of joints that never are.
#define BOOST_VARIANT_USE_RELAXED_GET_BY_DEFAULT

#include <functional>
#include <map>
#include <memory>

#include "pinocchio/codegen/cppadcg.hpp"
#include "pinocchio/multibody.hpp"

#include "pinocchio/algorithm/aba-derivatives.hpp"
#include "pinocchio/algorithm/aba.hpp"
#include "pinocchio/algorithm/crba.hpp"
#include "pinocchio/algorithm/rnea-derivatives.hpp"
#include "pinocchio/algorithm/rnea.hpp"

#include "batch_server.hpp"

namespace pin = pinocchio;
namespace cg = CppAD::cg;

// The joints of the benchmark's robots. Pinocchio's default collection has 25 kinds, with which the compiler takes
// several times as long and 7 GB; the code that is generated for a model depends only on its own joints.
template <typename S, int O>
struct Joints {
  using Scalar = S;
  static constexpr int Options = O;
  using JointModelVariant =
      boost::variant<pin::JointModelRevoluteTpl<S, O, 0>, pin::JointModelRevoluteTpl<S, O, 1>,
                     pin::JointModelRevoluteTpl<S, O, 2>, pin::JointModelRevoluteUnalignedTpl<S, O>,
                     pin::JointModelFreeFlyerTpl<S, O>>;
  using JointDataVariant =
      boost::variant<pin::JointDataRevoluteTpl<S, O, 0>, pin::JointDataRevoluteTpl<S, O, 1>,
                     pin::JointDataRevoluteTpl<S, O, 2>, pin::JointDataRevoluteUnalignedTpl<S, O>,
                     pin::JointDataFreeFlyerTpl<S, O>>;
};

using Scalar = CppAD::AD<cg::CG<double>>;
using Model = pin::ModelTpl<Scalar, 0, Joints>;
using Data = pin::DataTpl<Scalar, 0, Joints>;
using Vector = Eigen::Matrix<Scalar, Eigen::Dynamic, 1>;
using Vector3 = Eigen::Matrix<Scalar, 3, 1>;
using Matrix3 = Eigen::Matrix<Scalar, 3, 3>;

// Reads a line "KIND PARENT", and the numbers of a joint: axis, rotation and position of its frame in its parent's,
// mass, centre of mass, and inertia about it.
static void add_joint(Model &model, std::istream &text) {
  std::string kind;
  pin::JointIndex parent;
  text >> kind >> parent;
  const auto next = [&] {
    double value;
    text >> value;
    return Scalar(value);
  };
  const auto vector = [&] {
    Vector3 values;
    for (int i = 0; i < 3; ++i) values[i] = next();
    return values;
  };
  const auto matrix = [&] {
    Matrix3 values;
    for (int i = 0; i < 3; ++i) values.row(i) = vector().transpose();
    return values;
  };
  const Vector3 axis = vector();
  const Matrix3 rotation = matrix();
  const pin::SE3Tpl<Scalar> placement(rotation, vector());
  const Scalar mass = next();
  const Vector3 center = vector();
  const pin::InertiaTpl<Scalar> inertia(mass, center, matrix());
  if (!text) throw std::runtime_error("the model's file is too short");
  const std::string name = "joint" + std::to_string(model.njoints);
  const auto add = [&](const Model::JointModel &joint) {
    model.appendBodyToJoint(model.addJoint(parent, joint, placement, name), inertia);
  };
  if (kind == "JointModelRX") return add(pin::JointModelRevoluteTpl<Scalar, 0, 0>());
  if (kind == "JointModelRY") return add(pin::JointModelRevoluteTpl<Scalar, 0, 1>());
  if (kind == "JointModelRZ") return add(pin::JointModelRevoluteTpl<Scalar, 0, 2>());
  if (kind == "JointModelRevoluteUnaligned") return add(pin::JointModelRevoluteUnalignedTpl<Scalar, 0>(axis));
  if (kind == "JointModelFreeFlyer") return add(pin::JointModelFreeFlyerTpl<Scalar, 0>());
  throw std::runtime_error("no code is generated for a " + kind);
}

static Model read_model(const char *path) {
  Model model;
  std::ifstream text(path);
  int joints = 0;
  text >> joints;
  for (int k = 0; k < joints; ++k) add_joint(model, text);
  return model;
}

// What to trace: of the model and data, q, v and an acceleration or force.
using Trace = std::function<Vector(const Model &, Data &, const Vector &, const Vector &, const Vector &)>;

struct Quantity {
  bool takes_force;
  Trace trace;
};

template <typename First, typename... Others>
static Vector flat(const First &first, const Others &...others) {
  Vector all(first.size() * (1 + sizeof...(others)));
  Index at = 0;
  const auto append = [&](const auto &values) {
    for (Index column = 0; column < values.cols(); ++column)
      for (Index row = 0; row < values.rows(); ++row) all[at++] = values(row, column);
  };
  append(first);
  (append(others), ...);
  return all;
}

// Where Pinocchio has two ways, the one whose code is faster: in world axes, forward dynamics of a quadruped takes
// three times as long.
static std::map<std::string, Quantity> quantities() {
  std::map<std::string, Quantity> all;
  all["mass matrix"] = {false, [](auto &m, auto &data, auto &q, auto &, auto &) {
    data.M.setZero();
    return flat(pin::crba(m, data, q, pin::Convention::LOCAL));
  }};
  all["bias force"] = {false, [](auto &m, auto &data, auto &q, auto &v, auto &) {
    return flat(pin::nonLinearEffects(m, data, q, v));
  }};
  all["inverse dynamics"] = {false, [](auto &m, auto &data, auto &q, auto &v, auto &a) {
    return flat(pin::rnea(m, data, q, v, a));
  }};
  all["forward dynamics"] = {true, [](auto &m, auto &data, auto &q, auto &v, auto &f) {
    return flat(pin::aba(m, data, q, v, f, pin::Convention::LOCAL));
  }};
  all["inverse dynamics derivatives"] = {false, [](auto &m, auto &data, auto &q, auto &v, auto &a) {
    pin::computeRNEADerivatives(m, data, q, v, a);
    return flat(data.dtau_dq, data.dtau_dv);
  }};
  all["forward dynamics derivatives"] = {true, [](auto &m, auto &data, auto &q, auto &v, auto &f) {
    pin::computeABADerivatives(m, data, q, v, f);
    return flat(data.ddq_dq, data.ddq_dv);
  }};
  return all;
}

class Generated {
 public:
  Generated(const Model &model, const Quantity &quantity, const std::string &folder, int threads)
      : takes_force(quantity.takes_force) {
    Vector inputs = Vector::Zero(model.nq + 2 * model.nv);
    CppAD::Independent(inputs);
    const Vector q = inputs.head(model.nq), v = inputs.segment(model.nq, model.nv), last = inputs.tail(model.nv);
    Data data(model);
    Vector results = quantity.trace(model, data, q, v, last);
    CppAD::ADFun<cg::CG<double>> function(inputs, results);
    function.optimize("no_compare_op");
    inputs_ = inputs.size();
    width = results.size();

    cg::ModelCSourceGen<double> source(function, "f");
    source.setCreateForwardZero(true);
    cg::ModelLibraryCSourceGen<double> sources(source);
    cg::DynamicModelLibraryProcessor<double> processor(sources, folder);
    cg::GccCompiler<double> compiler("/usr/bin/gcc");
    auto flags = compiler.getCompileFlags();
    flags[0] = "-Ofast";  // As Pinocchio's own CodeGenBase has it.
    flags.push_back("-march=native");
    compiler.setCompileFlags(flags);
    library_ = processor.createDynamicLibrary(compiler);
    for (int thread = 0; thread < threads; ++thread) models_.push_back(library_->model("f"));
  }

  void evaluate(int thread, const double *x, double *out) {
    models_[thread]->ForwardZero(cg::ArrayView<const double>(x, inputs_), cg::ArrayView<double>(out, width));
  }

  Index width;
  const bool takes_force;

 private:
  std::size_t inputs_;
  std::unique_ptr<cg::DynamicLib<double>> library_;
  std::vector<std::unique_ptr<cg::GenericModel<double>>> models_;
};

// What the generated code reads of each state: q, v, and an acceleration or a force.
static Matrix inputs(const States &states, const Matrix &last) {
  Matrix all(states.q.rows() + states.v.rows() + last.rows(), states.count);
  all << states.q, states.v, last;
  return all;
}

int main(int count, char **arguments) {
  if (count < 5) return 2;
  const Model model = read_model(arguments[1]);
  const States states = read_states(arguments[2], model.nq, model.nv);
  const Matrix with_acceleration = inputs(states, states.acceleration), with_force = inputs(states, states.force);
  const int threads = std::max(1, std::stoi(arguments[3]));
  const auto all = quantities();
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
