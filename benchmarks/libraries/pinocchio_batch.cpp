// Pinocchio's algorithms over a batch of states on some threads, driven over standard input and output.
//
// usage: pinocchio_batch MODEL.txt STATES.bin THREADS X Y Z [JOINT ...]
//   MODEL.txt   a pinocchio::Model saved as text
//   STATES.bin, input and output as in batch_server.hpp
//   JOINT       feet: the bodies of these joints are held at the point X Y Z of the joints' frames
#include <deque>
#include <functional>
#include <map>

#include "pinocchio/multibody.hpp"
#include "pinocchio/serialization.hpp"

#include "pinocchio/algorithm/aba-derivatives.hpp"
#include "pinocchio/algorithm/aba.hpp"
#include "pinocchio/algorithm/constrained-dynamics-derivatives.hpp"
#include "pinocchio/algorithm/constrained-dynamics.hpp"
#include "pinocchio/algorithm/crba.hpp"
#include "pinocchio/algorithm/jacobian.hpp"
#include "pinocchio/algorithm/kinematics.hpp"
#include "pinocchio/algorithm/rnea-derivatives.hpp"
#include "pinocchio/algorithm/rnea.hpp"

#include "batch_server.hpp"

namespace pin = pinocchio;
using Feet = std::vector<pin::RigidConstraintModel>;

// What a thread computes in. Constrained dynamics has data of its own: computeABADerivatives is wrong in data it used.
struct Workspace : pin::Data {
  pin::Data standing;
  std::vector<pin::RigidConstraintData> held;

  Workspace(const pin::Model &model, const Feet &feet) : pin::Data(model), standing(model) {
    for (const auto &foot : feet) held.emplace_back(foot);
    pin::initConstraintDynamics(model, standing, feet, held);
  }
  Workspace(const Workspace &) = delete;  // its factorisation keeps pointers to the data that it was made for
};

// One result: what to compute for a state, and where to write its `width` numbers.
struct Quantity {
  std::size_t width;
  std::function<void(Workspace &, const States &, Index, double *)> compute;
};

template <typename Values>
static double *put(double *out, const Eigen::MatrixBase<Values> &values) {
  Eigen::Map<Matrix>(out, values.rows(), values.cols()) = values;
  return out + values.size();
}

static double *put_pose(double *out, const pin::SE3 &pose) {
  Eigen::Map<Eigen::Vector3d>(out, 3) = pose.translation();
  Eigen::Map<Eigen::Matrix3d>(out + 3) = pose.rotation();
  return out + 12;
}

static pin::Model read_model(const char *path) {
  pin::Model model;
  std::ifstream text(path);
  model.loadFromString(std::string(std::istreambuf_iterator<char>(text), std::istreambuf_iterator<char>()));
  return model;
}

static Feet held_feet(const pin::Model &model, int count, char **arguments) {
  const auto number = [&](int k) { return std::stod(arguments[k]); };
  const pin::SE3 place(Eigen::Matrix3d::Identity(), Eigen::Vector3d(number(0), number(1), number(2)));
  Feet feet;
  for (int k = 3; k < count; ++k)
    feet.emplace_back(pin::CONTACT_3D, model, model.getJointId(arguments[k]), place, pin::LOCAL_WORLD_ALIGNED);
  return feet;
}

static pin::ProximalSettings hold_feet(const pin::Model &model, const Feet &feet, Workspace &data, const States &s,
                                       Index k) {
  pin::ProximalSettings settings(0.0, 0.0, 0.0, 1);  // the feet are independent: exact in one iteration
  pin::constraintDynamics(model, data.standing, s.q.col(k), s.v.col(k), s.force.col(k), feet, data.held, settings);
  return settings;
}

// Only `model` and `feet` outlive this function: what is computed later may refer to nothing else of it.
static std::map<std::string, Quantity> quantities(const pin::Model &model, const Feet &feet) {
  const std::size_t nv = model.nv, joints = model.njoints - 1;
  std::map<std::string, Quantity> all;
  all["mass matrix"] = {nv * nv, [&model](Workspace &data, const States &s, Index k, double *out) {
    pin::crba(model, data, s.q.col(k), pin::Convention::LOCAL);
    put(out, data.M);
  }};
  all["bias force"] = {nv, [&model](Workspace &data, const States &s, Index k, double *out) {
    put(out, pin::nonLinearEffects(model, data, s.q.col(k), s.v.col(k)));
  }};
  all["inverse dynamics"] = {nv, [&model](Workspace &data, const States &s, Index k, double *out) {
    put(out, pin::rnea(model, data, s.q.col(k), s.v.col(k), s.acceleration.col(k)));
  }};
  all["forward dynamics"] = {nv, [&model](Workspace &data, const States &s, Index k, double *out) {
    put(out, pin::aba(model, data, s.q.col(k), s.v.col(k), s.force.col(k), pin::Convention::WORLD));
  }};
  all["link poses"] = {12 * joints, [&model](Workspace &data, const States &s, Index k, double *out) {
    pin::forwardKinematics(model, data, s.q.col(k));
    for (int j = 1; j < model.njoints; ++j) out = put_pose(out, data.oMi[j]);
  }};
  all["poses and velocities"] = {18 * joints, [&model](Workspace &data, const States &s, Index k, double *out) {
    pin::forwardKinematics(model, data, s.q.col(k), s.v.col(k));
    for (int j = 1; j < model.njoints; ++j) out = put(put_pose(out, data.oMi[j]), data.v[j].toVector());
  }};
  all["dense Jacobian"] = {6 * nv * joints, [&model](Workspace &data, const States &s, Index k, double *out) {
    pin::computeJointJacobians(model, data, s.q.col(k));
    for (int j = 1; j < model.njoints; ++j, out += 6 * model.nv) {
      Eigen::Map<Matrix> jacobian(out, 6, model.nv);
      jacobian.setZero();
      pin::getJointJacobian(model, data, j, pin::LOCAL_WORLD_ALIGNED, jacobian);
    }
  }};
  all["inverse dynamics derivatives"] = {2 * nv * nv, [&model](Workspace &data, const States &s, Index k, double *out) {
    pin::computeRNEADerivatives(model, data, s.q.col(k), s.v.col(k), s.acceleration.col(k));
    put(put(out, data.dtau_dq), data.dtau_dv);
  }};
  all["forward dynamics derivatives"] = {2 * nv * nv, [&model](Workspace &data, const States &s, Index k, double *out) {
    pin::computeABADerivatives(model, data, s.q.col(k), s.v.col(k), s.force.col(k));
    put(put(out, data.ddq_dq), data.ddq_dv);
  }};
  if (feet.empty()) return all;
  all["constrained forward dynamics"] = {nv, [&model, &feet](Workspace &data, const States &s, Index k, double *out) {
    hold_feet(model, feet, data, s, k);
    put(out, data.standing.ddq);
  }};
  const auto derivatives = [&model, &feet](Workspace &data, const States &s, Index k, double *out) {
    pin::Data &standing = data.standing;
    const pin::ProximalSettings settings = hold_feet(model, feet, data, s, k);
    pin::computeConstraintDynamicsDerivatives(model, standing, feet, data.held, settings);
    put(put(out, standing.ddq_dq), standing.ddq_dv);
  };
  all["constrained forward dynamics derivatives"] = {2 * nv * nv, derivatives};
  return all;
}

int main(int count, char **arguments) {
  if (count < 7) return 2;
  const pin::Model model = read_model(arguments[1]);
  const States states = read_states(arguments[2], model.nq, model.nv);
  const Feet feet = held_feet(model, count - 4, arguments + 4);
  std::deque<Workspace> data;
  for (int thread = 0; thread < std::max(1, std::stoi(arguments[3])); ++thread) data.emplace_back(model, feet);
  const auto all = quantities(model, feet);
  const auto find = [&](const std::string &name) {
    const auto entry = all.find(name);
    return entry == all.end() ? nullptr : &entry->second;
  };
  serve(states.count, data.size(), find, [&](const Quantity &quantity, Index thread, Index k, double *out) {
    quantity.compute(data[thread], states, k, out);
  });
  return 0;
}
