// A small language model over letters, and its text.
#pragma once

#include <ATen/Functions.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>

#include <random>
#include <string>
#include <tuple>

inline constexpr std::int64_t kRows = 8, kLetters = 16, kVocabulary = 27, kHidden = 64;

// Sentences whose last word is their first one. Numbers of letters, a space's is 26.
inline at::Tensor made_up_text(std::int64_t letters) {
  static const std::string kWho[] = {"ada", "kurt", "emmy", "alan"};
  static const std::string kDoes[] = {" proves ", " doubts ", " hopes "};
  std::mt19937 random(5489);
  std::string text;
  while (std::ssize(text) < letters) {
    const std::string& who = kWho[random() % 4];
    text += who + kDoes[random() % 3] + "that two is even and so does " + who + " ";
  }
  at::Tensor numbers = at::empty({letters}, at::kLong);
  for (std::int64_t i = 0; i < letters; ++i)
    numbers.mutable_data_ptr<std::int64_t>()[i] = text[i] == ' ' ? 26 : text[i] - 'a';
  return numbers;
}

// Piece i is letters i * kLetters to (i + 1) * kLetters of each of kRows rows, and so goes on where
// piece i - 1 has ended: int64 [pieces, kRows, kLetters].
inline at::Tensor pieces_of(const at::Tensor& text, std::int64_t pieces) {
  return text.view({kRows, pieces, kLetters}).transpose(0, 1).contiguous();
}

struct LanguageModelImpl : torch::nn::Module {
  using State = std::tuple<at::Tensor, at::Tensor>;  // h and c: [1, kRows, kHidden]
  LanguageModelImpl() {
    register_module("letters", letters);
    register_module("lstm", lstm);
    register_module("next", next);
  }
  // Scores of each next letter, [kRows, kLetters, kVocabulary], and the state behind the last.
  std::tuple<at::Tensor, State> forward(const at::Tensor& text, const State& before) {
    auto [out, behind] = lstm(letters(text), before);
    return {next(out), behind};
  }
  torch::nn::Embedding letters{kVocabulary, kHidden};
  torch::nn::LSTM lstm{torch::nn::LSTMOptions(kHidden, kHidden).batch_first(true)};
  torch::nn::Linear next{kHidden, kVocabulary};
};
TORCH_MODULE(LanguageModel);
