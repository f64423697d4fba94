// A .pt file's value as named tensors and plain values.
#pragma once

#include "inspect/checkpoint/bundle.h"
#include "pickle/value.h"

namespace lockstep::inspect {

// Fills parts and values: a dict's entries that hold tensors, at any depth, become parts, with
// names joined by dots; its own tensors are the part without a name. All else becomes text; so do
// the first leaves (pickle::Opaque) at any depth, by their names.
void add_values(const pickle::Value& root, Bundle& bundle);

// "3", "0.25", "[0.7, 0.6]", "a list of 40 values": one line, cut at 60 characters.
std::string plain_text(const pickle::Value& value);

}  // namespace lockstep::inspect
