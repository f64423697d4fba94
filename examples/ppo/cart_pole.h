// The cart-pole of Barto, Sutton and Anderson (1983), with the numbers of Gym's CartPole-v1: a cart
// is pushed to the left or to the right so that the pole on it does not fall. Several at once.
#pragma once

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cstdint>
#include <utility>

class CartPoles {
 public:
  static constexpr std::int64_t kCarts = 8, kSeen = 4, kPushes = 2, kLongest = 500;

  // All that is to know of them, [kCarts, 6]: the cart's place in m and its speed, the pole's angle
  // in rad and its speed; steps since the pole was set up, and how many it stood the time before.
  const at::Tensor& row() const { return row_; }
  static at::Tensor first_row() { return at::cat({set_up(), at::zeros({kCarts, 2})}, 1); }
  explicit CartPoles(at::Tensor row) : row_(std::move(row)) {}

  at::Tensor seen() const { return row_.slice(1, 0, kSeen); }  // [kCarts, kSeen]

  struct Pushed {
    at::Tensor seen;        // as it came out, before poles that fell are set up again
    at::Tensor fell, over;  // bool, [kCarts]; over: fell, or stood for kLongest steps
  };
  // `pushes`: int64, [kCarts], 0 is to the left. Each step has a reward of 1. Draws from the
  // default generator how poles are set up again.
  Pushed push(const at::Tensor& pushes) {
    const auto now = row_.unbind(1);
    const at::Tensor &speed = now[1], &angle = now[2], &turn = now[3];
    const at::Tensor sine = angle.sin(), cosine = angle.cos();
    const at::Tensor force = (2 * pushes - 1) * kForce;
    const at::Tensor pull = (force + kMoment * turn.square() * sine) / kMass;
    const at::Tensor turned = (kGravity * sine - cosine * pull) /
                              (kHalfPole * (4.0 / 3 - kPole * cosine.square() / kMass));
    const at::Tensor sped = pull - kMoment * turned * cosine / kMass;
    const at::Tensor next =
        seen() + kSeconds * at::stack({speed, sped, turn, turned}, 1);  // Euler's method
    const at::Tensor steps = now[4] + 1;
    const at::Tensor fell =
        (next.select(1, 0).abs() > 2.4) | (next.select(1, 2).abs() > kMostAngle);
    const at::Tensor over = fell | (steps >= kLongest);
    row_ = at::cat({at::where(over.unsqueeze(1), set_up(), next),
                    at::stack({steps * ~over, at::where(over, steps, now[5])}, 1)},
                   1);
    return {next, fell, over};
  }

 private:
  static constexpr double kGravity = 9.8, kPole = 0.1, kMass = 1.1, kHalfPole = 0.5;  // kg, m
  static constexpr double kMoment = kPole * kHalfPole, kForce = 10, kSeconds = 0.02;
  static constexpr double kMostAngle = 12 * 3.14159265358979 / 180;
  static at::Tensor set_up() { return at::rand({kCarts, kSeen}) * 0.1 - 0.05; }
  at::Tensor row_;
};
